use super::{Field, Item, Kind};

fn field(kind: Kind, text: &str) -> Field {
    Field::parse(kind, text).unwrap_or_else(|why| panic!("{why}"))
}

fn values(kind: Kind, text: &str) -> Vec<u32> {
    let mask = field(kind, text).mask();
    (0..64).filter(|bit| mask >> bit & 1 == 1).collect()
}

fn refusal(kind: Kind, text: &str) -> String {
    match Field::parse(kind, text) {
        Ok(field) => panic!("{text} is read as {field}"),
        Err(why) => why,
    }
}

#[test]
fn values_are_those_of_the_text() {
    assert_eq!(values(Kind::Minute, "*/20"), [0, 20, 40]);
    assert_eq!(values(Kind::Minute, "5-20/7"), [5, 12, 19]);
    assert_eq!(values(Kind::Minute, "59,0,30-31"), [0, 30, 31, 59]);
    assert_eq!(values(Kind::DayOfMonth, "*/10"), [1, 11, 21, 31]);
    assert_eq!(values(Kind::Month, "*/5"), [1, 6, 11]);
    assert_eq!(values(Kind::Month, "feb-APR,Dec"), [2, 3, 4, 12]);
}

#[test]
fn seven_is_sunday() {
    assert_eq!(values(Kind::DayOfWeek, "7"), [0]);
    assert_eq!(values(Kind::DayOfWeek, "5-7"), [0, 5, 6]);
    assert_eq!(values(Kind::DayOfWeek, "0-7"), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(values(Kind::DayOfWeek, "5-7/2"), [0, 5]);
    assert_eq!(values(Kind::DayOfWeek, "*/7"), [0]);
    assert_eq!(values(Kind::DayOfWeek, "SAT-SUN"), [0, 6]);
    assert_eq!(values(Kind::DayOfWeek, "SUN-MON"), [0, 1]);
}

#[test]
fn a_field_has_one_spelling() {
    let spelled = |kind, text| field(kind, text).to_string();
    assert_eq!(spelled(Kind::Minute, "05,*/1,00-59/1,7-7/3"), "5,*,0-59,7");
    assert_eq!(spelled(Kind::DayOfWeek, "sun,7,Fri-SUN,fril,MON#2,7-7"), "0,0,5-7,5L,1#2,0");
    assert_eq!(spelled(Kind::DayOfMonth, "l,l-03,lw,015w"), "L,L-3,LW,15W");
}

#[test]
fn only_a_text_that_begins_with_a_star_is_unrestricted() {
    assert!(field(Kind::DayOfMonth, "*/10").begins_with_star());
    assert!(field(Kind::DayOfMonth, "*,5").begins_with_star());
    assert!(!field(Kind::DayOfMonth, "5,*").begins_with_star());
    assert!(!field(Kind::DayOfMonth, "1-31").begins_with_star());
}

#[test]
fn the_spellings_of_quartz_are_read_in_their_fields() {
    assert_eq!(field(Kind::DayOfMonth, "L-30").items(), [Item::BeforeLastDay(30)]);
    assert_eq!(field(Kind::DayOfMonth, "31W").items(), [Item::NearestWorkday(31)]);
    assert_eq!(field(Kind::DayOfWeek, "7L").items(), [Item::LastOf(0)]);
    assert_eq!(field(Kind::DayOfWeek, "7#5").items(), [Item::Nth(0, 5)]);
    for (kind, text) in [
        (Kind::Hour, "L"),
        (Kind::DayOfMonth, "5L"),
        (Kind::DayOfMonth, "5#1"),
        (Kind::DayOfWeek, "LW"),
        (Kind::DayOfWeek, "15W"),
        (Kind::DayOfWeek, "L-3"),
    ] {
        refusal(kind, text);
    }
}

#[test]
fn a_backward_range_is_answered_with_the_ranges_it_meant() {
    let hint = |kind, text| refusal(kind, text);
    assert!(hint(Kind::Hour, "22-2").contains("write `22-23,0-2`"));
    assert!(hint(Kind::Hour, "23-0").contains("write `23,0`"));
    assert!(hint(Kind::Month, "NOV-feb").contains("write `NOV-DEC,JAN-FEB`"));
    assert!(hint(Kind::Month, "11-2/2").contains("write `1,11`"));
    assert!(hint(Kind::DayOfMonth, "25-5/5").contains("write `4,25,30`"));
    assert!(hint(Kind::DayOfWeek, "7-3/2").contains("write `0,2`"));
    assert!(hint(Kind::DayOfWeek, "7-0").contains("write `0`"));
    // What is proposed is accepted.
    assert_eq!(values(Kind::Hour, "22-23,0-2"), [0, 1, 2, 22, 23]);
}

#[test]
fn a_refusal_names_the_field_and_what_is_allowed() {
    let why = refusal(Kind::DayOfMonth, "0");
    assert!(why.starts_with("day-of-month field `0`: `0` is not in 1-31; allowed: 1-31"), "{why}");
    let why = refusal(Kind::Month, "January");
    assert!(why.contains("names have three letters, `JAN`"), "{why}");
    let why = refusal(Kind::Minute, "5/15");
    assert!(why.contains("write `5-59/15`, or `5` without the step"), "{why}");
}

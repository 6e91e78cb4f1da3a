//! What travels in a notification.

use super::{News, Parcel, parcels};

fn news(job: &str, finished: bool) -> News {
    News { namespace: "ns".to_owned(), job: job.to_owned(), finished }
}

#[test]
fn the_same_news_travel_once() {
    let parcels = parcels("me", vec![news("b", true), news("a", false), news("b", true)]);
    assert_eq!(parcels.len(), 1);
    let parcel: Parcel = serde_json::from_str(&parcels[0]).expect("can be read again");
    assert_eq!(parcel.origin, "me");
    assert_eq!(parcel.news, [news("a", false), news("b", true)]);
}

#[test]
fn no_notification_is_longer_than_the_server_takes() {
    let all: Vec<News> = (0..200).map(|n| news(&format!("{n:0>200}"), true)).collect();
    let parcels = parcels("0123456789abcdef0123456789abcdef", all.clone());
    assert!(parcels.iter().all(|payload| payload.len() < 8_000));
    let news = parcels
        .iter()
        .flat_map(|payload| serde_json::from_str::<Parcel>(payload).expect("can be read").news);
    assert_eq!(news.collect::<Vec<_>>(), all);
}

use super::{Operation, Scripts};

#[test]
fn every_operation_finds_its_own_script() {
    let scripts = Scripts::on_clock(false);
    for (operation, text) in Operation::ALL {
        assert!(scripts.get(operation).text.ends_with(text), "{operation:?}");
    }
}

#[test]
fn every_script_says_what_it_takes_and_what_it_answers() {
    for (operation, text) in Operation::ALL {
        for word in ["-- KEYS ", "-- ARGV", "-- Answers "] {
            assert!(text.contains(word), "{operation:?} does not say {word:?}");
        }
        let keys = text.lines().find(|line| line.starts_with("-- KEYS ")).unwrap_or_default();
        let named = keys.trim_start_matches("-- KEYS").split(',').count();
        assert_eq!(named, operation.key_count(), "{operation:?}: {keys}");
    }
}

/// The reads that the header numbers are the reads that the script makes.
#[test]
fn every_argument_of_a_header_is_read_and_the_other_way_round() {
    for (operation, text) in Operation::ALL {
        let (header, body): (Vec<&str>, Vec<&str>) =
            text.lines().partition(|line| line.starts_with("-- "));
        let (header, body) = (header.join("\n"), body.join("\n"));
        for number in 1..20 {
            let argument = format!("ARGV[{number}]");
            let (told, read) = (header.contains(&argument), body.contains(&argument));
            assert_eq!(told, read, "{operation:?} {argument}");
        }
    }
}

#[test]
fn a_given_clock_is_never_read_by_the_scripts_of_the_server() {
    let server = Scripts::on_clock(false);
    let given = Scripts::on_clock(true);
    for (operation, _) in Operation::ALL {
        assert!(!server.get(operation).text.contains("ARGV[#ARGV]"), "{operation:?}");
        assert!(!given.get(operation).text.contains("'TIME'"), "{operation:?}");
        assert_ne!(server.get(operation).hash, given.get(operation).hash, "{operation:?}");
    }
}

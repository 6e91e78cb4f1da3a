//! The server's clock, whatever the zone of the session and of the server is.

use anarchon::backends::mysql::MySqlDialect;
use anarchon::backends::sql::SqlDialect;
use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Row};

use crate::store::{Database, execute};

async fn now(conn: &mut MySqlConnection) -> i64 {
    let sql = format!("SELECT CAST({} AS SIGNED)", MySqlDialect.now_ms());
    let row = sqlx::query(AssertSqlSafe(sql)).fetch_one(conn).await.expect("answers");
    row.get(0)
}

/// The rules of Europe/Berlin for 2026, where a server has no tables of zones: the hour that is
/// repeated in October is gone through twice.
async fn set_berlin(conn: &mut MySqlConnection) -> bool {
    execute(conn, "SET SESSION time_zone = 'Europe/Berlin'").await.is_ok()
}

/// 2026-10-25 00:30 UTC is 02:30 summer time in Berlin, 01:30 UTC is 02:30 standard time.
const FIRST_PASS_S: i64 = 1_792_888_200;
const SECOND_PASS_S: i64 = FIRST_PASS_S + 3_600;

#[tokio::test]
async fn both_passes_of_the_hour_that_is_repeated_are_read_right() {
    let Some(database) = Database::new().await else { return };
    let mut conn = database.connection().await;
    let zones = set_berlin(&mut conn).await;
    if !zones {
        println!("this server has no tables of zones: offsets stand for Europe/Berlin");
    }
    for (pass, offset) in [(FIRST_PASS_S, "+02:00"), (SECOND_PASS_S, "+01:00")] {
        if !zones {
            execute(&mut conn, &format!("SET time_zone = '{offset}'")).await.expect("is known");
        }
        execute(&mut conn, &format!("SET timestamp = {pass}.250")).await.expect("may be set");
        assert_eq!(now(&mut conn).await, pass * 1_000 + 250);
    }
}

#[tokio::test]
async fn the_clock_goes_on_within_a_transaction_and_past_2038() {
    let Some(database) = Database::new().await else { return };
    let mut conn = database.connection().await;
    execute(&mut conn, "START TRANSACTION").await.expect("begins");
    let before = now(&mut conn).await;
    execute(&mut conn, "SELECT SLEEP(0.05)").await.expect("waits");
    let after = now(&mut conn).await;
    assert!(after >= before + 50, "{before} and {after}");
    for far in [2_147_483_647_i64] {
        execute(&mut conn, &format!("SET timestamp = {far}")).await.expect("may be set");
        assert_eq!(now(&mut conn).await, far * 1_000);
    }
}

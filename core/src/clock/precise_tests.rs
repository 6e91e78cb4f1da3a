use std::time::{Duration, Instant};

use super::{LAST, PLACES, THREADS, sleep};

#[tokio::test]
async fn a_sleep_is_never_shorter_than_asked_for() {
    for micros in [1, 200, 999, 1_000, 1_001, 2_500] {
        let (begin, rest) = (Instant::now(), Duration::from_micros(micros));
        sleep(rest).await;
        assert!(begin.elapsed() >= rest, "{:?} of {rest:?}", begin.elapsed());
    }
}

#[tokio::test]
async fn where_no_place_or_no_thread_is_free_the_timer_of_the_runtime_serves() {
    let begin = Instant::now();
    let all = PLACES.acquire_many(u32::try_from(THREADS).unwrap()).await.unwrap();
    sleep(LAST).await;
    assert!(begin.elapsed() >= LAST);
    drop(all);

    let (go, wait) = std::sync::mpsc::channel::<()>();
    let narrow = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .max_blocking_threads(1)
        .enable_time()
        .build()
        .unwrap();
    let held = narrow.spawn_blocking(move || wait.recv());
    // Without the timer this would wait for the thread, which waits for what comes after it.
    narrow.spawn(sleep(LAST)).await.unwrap();
    go.send(()).unwrap();
    held.await.unwrap().unwrap();
    narrow.shutdown_background();
}

#[tokio::test]
async fn a_sleep_that_was_given_up_gives_its_place_back() {
    for _ in 0..THREADS * 4 {
        let given_up = sleep(Duration::from_micros(100));
        let _ended = futures_util::future::select(Box::pin(given_up), std::future::ready(())).await;
    }
    let all = PLACES.acquire_many(u32::try_from(THREADS).unwrap()).await;
    assert!(all.is_ok());
}

//! A store that has lost what it acknowledged, as after a failover to a replica that lagged behind.

use std::sync::Arc;

use anarchon::backends::redis::RedisBackend;
use anarchon::error::Code;
use anarchon::events::Event;
use anarchon::scheduler::{
    BackendSource, HandlerEnd, JobContext, JobDefinition, JobOptions, Scheduler, SchedulerOptions,
    SharedBackend, When,
};
use tokio::sync::mpsc;

use crate::server::Private;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r07_a_holder_whose_record_is_gone_says_that_the_store_lost_writes_and_stops() {
    let Some(server) = Private::start(&[]).await else { return };
    let store = RedisBackend::with_options(server.options()).expect("allowed");
    let scheduler = Scheduler::new(SchedulerOptions {
        backend: Some(BackendSource::Object(SharedBackend::new(Arc::new(store)))),
        ..SchedulerOptions::default()
    });
    let scheduler = scheduler.expect("a scheduler");
    let (tell, mut told) = mpsc::unbounded_channel();
    scheduler.subscribe(Arc::new(move |event: &Event| {
        if let Event::Error { error, .. } = event {
            tell.send(error.to_string()).expect("the test listens");
        }
    }));
    let (enter, mut entered) = mpsc::unbounded_channel();
    let (end, mut ended) = mpsc::unbounded_channel();
    let handler = move |context: Arc<JobContext>| {
        let (enter, end) = (enter.clone(), end.clone());
        async move {
            context.entered();
            enter.send(context.slot).expect("the test listens");
            context.cancellation.cancelled().await;
            let reason = context.cancellation.reason().expect("told why");
            end.send(reason.code()).expect("the test listens");
            HandlerEnd::Threw(reason)
        }
    };
    let job = JobDefinition {
        name: "long".to_owned(),
        when: When::Every(serde_json::json!("1s")),
        options: JobOptions { jitter_ms: Some(0), lease_ms: Some(1_500), ..JobOptions::default() },
        handler: Arc::new(handler),
    };
    scheduler.add(job).expect("a job");
    scheduler.start(true).await.expect("a start");
    entered.recv().await.expect("a run");
    let _flushed: String = server.tell(&["FLUSHALL"]).await;
    assert_eq!(ended.recv().await, Some(Some(Code::LeaseLost)));
    let error = told.recv().await.expect("an error event");
    assert!(error.contains("it lost writes"), "{error}");
    scheduler.stop(Some(0)).await.expect("a stop");
}

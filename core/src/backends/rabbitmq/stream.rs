//! The stream of a job: written with confirms, read from its end without taking anything out.

use futures_util::{FutureExt, StreamExt};
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicCancelOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    QueueDeclareOptions,
};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{BasicProperties, Confirmation, Consumer};

use super::failure;
use super::lane::{Lane, Trouble};
use crate::error::Error;

/// A stream is cut by whole segments; so it can be longer than it should by one of them.
const SEGMENT_BYTES: i64 = 512 * 1024;

/// How many messages the server sends before it waits for us.
const TOGETHER: u16 = 2_000;

fn number(value: i64) -> AMQPValue {
    AMQPValue::LongLongInt(value)
}

fn table<const N: usize>(pairs: [(&str, AMQPValue); N]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in pairs {
        table.insert(ShortString::from(name), value);
    }
    table
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// In the stream, on disk.
    Yes,
    /// Nowhere: there is no such stream.
    Missing,
    /// Nobody knows: the stream is just being made. A little later it is there.
    NotYet,
}

/// Declares a stream. One that is there with other bounds stays as it is, and so does one that
/// another client is just declaring.
pub(super) async fn declare(mut lane: Lane, stream: &str) -> Result<(), Trouble> {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    let arguments = table([
        ("x-queue-type", AMQPValue::LongString("stream".into())),
        ("x-max-length-bytes", number(lane.link.options.history_bytes)),
        ("x-stream-max-segment-size-bytes", number(SEGMENT_BYTES)),
    ]);
    let channel = lane.channel.clone();
    let declaring = channel.queue_declare(stream.into(), durable, arguments);
    match lane.ask("declaring a stream", declaring).await {
        Ok(_) => lane.give_back(),
        Err(Trouble::Lapin(error)) if failure::is_stumble(&error) => {}
        Err(Trouble::Lapin(error)) => {
            let differs = failure::differing_argument(&error);
            if differs.is_none_or(|name| name == "x-queue-type") {
                return Err(Trouble::Lapin(error));
            }
        }
        Err(trouble) => return Err(trouble),
    }
    Ok(())
}

/// Writes a message.
pub(super) async fn write(
    mut lane: Lane,
    stream: &str,
    message: &[u8],
) -> Result<Written, Trouble> {
    let properties = BasicProperties::default()
        .with_delivery_mode(2)
        .with_content_type("application/json".into());
    let mandatory = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let channel = lane.channel.clone();
    let writing = async {
        let publish =
            channel.basic_publish("".into(), stream.into(), mandatory, message, properties);
        publish.await?.await
    };
    let written = match lane.ask("a record", writing).await {
        Ok(Confirmation::Ack(None)) => Written::Yes,
        Ok(Confirmation::Ack(Some(_))) => Written::Missing,
        Ok(_) => return Err(silent(&lane, "the server did not take a record")),
        Err(Trouble::Lapin(error)) if failure::is_stumble(&error) => return Ok(Written::NotYet),
        Err(trouble) => return Err(trouble),
    };
    lane.give_back();
    Ok(written)
}

/// The newest messages of a stream, at least `count` of them if there are so many, in the order in
/// which they were written; `None` if there is no such stream.
///
/// The server does not say where a stream ends. But it sends all that there is in one go, once it
/// has begun, and what we ask after that is answered after that.
pub(super) async fn read(
    mut lane: Lane,
    stream: &str,
    count: i64,
) -> Result<Option<Vec<Vec<u8>>>, Trouble> {
    ask_qos(&mut lane).await?;
    let last = AMQPValue::LongString("last".into());
    let mut probe = match consume(&mut lane, stream, last).await {
        Err(Trouble::Lapin(error)) if failure::is_not_found(&error) => return Ok(None),
        consumer => consumer?,
    };
    let newest = offset(&next(&mut lane, &mut probe).await?);
    let channel = lane.channel.clone();
    let cancelling = channel.basic_cancel(probe.tag(), BasicCancelOptions::default());
    lane.ask("the end of reading", cancelling).await?;

    let from = number((newest - count).max(0));
    let mut consumer = consume(&mut lane, stream, from).await?;
    let mut messages = vec![next(&mut lane, &mut consumer).await?];
    let mut before = 0;
    loop {
        ask_qos(&mut lane).await?;
        while let Some(Some(delivery)) = consumer.next().now_or_never() {
            messages.push(delivery.map_err(Trouble::Lapin)?);
        }
        // The server waits for us only if it has sent as many as it may.
        if messages.len() - before < usize::from(TOGETHER) {
            break;
        }
        before = messages.len();
        let tag = messages.last().map_or(0, |delivery| delivery.delivery_tag);
        let all = BasicAckOptions { multiple: true };
        lane.ask("a receipt", channel.basic_ack(tag, all)).await?;
    }
    Ok(Some(messages.into_iter().map(|delivery| delivery.data).collect()))
}

async fn ask_qos(lane: &mut Lane) -> Result<(), Trouble> {
    let channel = lane.channel.clone();
    lane.ask("a question", channel.basic_qos(TOGETHER, BasicQosOptions::default())).await
}

async fn consume(lane: &mut Lane, stream: &str, from: AMQPValue) -> Result<Consumer, Trouble> {
    let channel = lane.channel.clone();
    let options = BasicConsumeOptions::default();
    let from = table([("x-stream-offset", from)]);
    lane.ask("reading", channel.basic_consume(stream.into(), "".into(), options, from)).await
}

/// The next message. A stream has at least one: it begins with the registration of its job.
async fn next(lane: &mut Lane, consumer: &mut Consumer) -> Result<Delivery, Trouble> {
    let next = async { consumer.next().await.transpose() };
    let delivery = lane.ask("reading (is the stream empty?)", next).await?;
    delivery.ok_or_else(|| silent(lane, "the stream was removed while it was read"))
}

/// The position of a message in its stream.
fn offset(delivery: &Delivery) -> i64 {
    let headers = delivery.properties.headers().as_ref();
    match headers.and_then(|headers| headers.inner().get("x-stream-offset")) {
        Some(AMQPValue::LongLongInt(offset)) => *offset,
        _ => 0,
    }
}

fn silent(lane: &Lane, what: &str) -> Trouble {
    Trouble::Ours(Error::unavailable(format!(
        "RabbitMQ at {}: {what}",
        lane.link.options.address()
    )))
}

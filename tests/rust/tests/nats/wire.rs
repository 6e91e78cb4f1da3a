//! A client of a few lines, so that tests see a server through other eyes than the store's.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use serde_json::Value;

/// Sends one request and reads its answer. `None` if nobody is there, or lets us in.
pub async fn ask(server: &str, subject: &str, body: &str) -> Option<Value> {
    let stream = TcpStream::connect(server).await.ok()?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let connect = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\
                   \"no_responders\":true}\r\nSUB answer.of.wire 1\r\n";
    let request = format!("PUB {subject} answer.of.wire {}\r\n{body}\r\n", body.len());
    stream.write_all(format!("{connect}{request}").as_bytes()).await.ok()?;
    loop {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.first().copied() {
            Some("PING") => stream.write_all(b"PONG\r\n").await.ok()?,
            Some("MSG") => {
                let length: usize = words.last()?.parse().ok()?;
                let mut payload = vec![0; length];
                stream.read_exact(&mut payload).await.ok()?;
                return serde_json::from_slice(&payload).ok();
            }
            Some("HMSG" | "-ERR") => return None,
            _ => {}
        }
    }
}

// The interop test service on tonic, and a client of it.
//
//   foreign serve PORT MAXSTREAMS  prints its port; a line on standard input ends it gracefully, its end ends it at once
//   foreign call ADDRESS           makes calls and prints a line for each: what was observed
//   foreign load ADDRESS           64 callers until standard input ends; prints how their calls ended
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio_stream::{Stream, StreamExt};
use tonic::codec::CompressionEncoding;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, Streaming};

#[derive(Clone, PartialEq, prost::Message)]
pub struct Empty {}
#[derive(Clone, PartialEq, prost::Message)]
pub struct Payload {
    #[prost(bytes = "bytes", tag = "2")]
    pub body: prost::bytes::Bytes,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct EchoStatus {
    #[prost(int32, tag = "1")]
    pub code: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct SimpleRequest {
    #[prost(int32, tag = "2")]
    pub response_size: i32,
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
    #[prost(message, optional, tag = "7")]
    pub response_status: Option<EchoStatus>,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct SimpleResponse {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct Parameters {
    #[prost(int32, tag = "1")]
    pub size: i32,
    #[prost(int32, tag = "2")]
    pub interval_us: i32,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct OutRequest {
    #[prost(message, repeated, tag = "2")]
    pub response_parameters: Vec<Parameters>,
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
    #[prost(message, optional, tag = "7")]
    pub response_status: Option<EchoStatus>,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct OutResponse {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct InRequest {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}
#[derive(Clone, PartialEq, prost::Message)]
pub struct InResponse {
    #[prost(int32, tag = "1")]
    pub aggregated_payload_size: i32,
}

mod service {
    include!(concat!(env!("OUT_DIR"), "/grpc.testing.TestService.rs"));
}
use service::test_service_client::TestServiceClient;
use service::test_service_server::{TestService, TestServiceServer};

fn payload(n: i32) -> Option<Payload> {
    Some(Payload { body: vec![b'x'; n as usize].into() })
}

#[derive(Clone, Default)]
struct Server {
    hanging: Arc<AtomicUsize>,
}

struct Hanging(Arc<AtomicUsize>);
impl Drop for Hanging {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Server {
    // The header and the trailer that the request's metadata ask for; waits until the call has ended when they ask for it.
    async fn metadata(&self, got: &MetadataMap) -> (MetadataMap, MetadataMap) {
        let (mut header, mut trailer) = (MetadataMap::new(), MetadataMap::new());
        if let Some(v) = got.get("x-grpc-test-echo-initial") {
            header.insert("x-grpc-test-echo-initial", v.clone());
        }
        if let Some(v) = got.get_bin("x-grpc-test-echo-trailing-bin") {
            trailer.insert_bin("x-grpc-test-echo-trailing-bin", v.clone());
        }
        for (k, to, c) in [("x-header-size", &mut header, "h"), ("x-trailer-size", &mut trailer, "t")] {
            if let Some(v) = got.get(k) {
                to.insert("x-big", c.repeat(v.to_str().unwrap().parse().unwrap()).parse().unwrap());
            }
        }
        if got.contains_key("x-hang") {
            self.hanging.fetch_add(1, Ordering::SeqCst);
            let _hanging = Hanging(self.hanging.clone());
            std::future::pending::<()>().await;
        }
        (header, trailer)
    }
}

fn end(s: &Option<EchoStatus>, got: &MetadataMap, trailer: MetadataMap) -> Result<(), Status> {
    match s {
        Some(s) if s.code != 0 => {
            let details = got.get_bin("x-details-bin").map(|v| v.to_bytes().unwrap()).unwrap_or_default();
            Err(Status::with_details_and_metadata(Code::from(s.code), s.message.clone(), details, trailer))
        }
        _ => Ok(()),
    }
}

async fn send(to: &tokio::sync::mpsc::Sender<Result<OutResponse, Status>>, r: &OutRequest) {
    for p in &r.response_parameters {
        if p.interval_us > 0 {
            tokio::time::sleep(Duration::from_micros(p.interval_us as u64)).await;
        }
        if to.send(Ok(OutResponse { payload: payload(p.size) })).await.is_err() {
            return;
        }
    }
}

type Out = Pin<Box<dyn Stream<Item = Result<OutResponse, Status>> + Send>>;

fn answer(rx: tokio::sync::mpsc::Receiver<Result<OutResponse, Status>>, header: MetadataMap) -> Response<Out> {
    let mut r = Response::new(Box::pin(tokio_stream::wrappers::ReceiverStream::new(rx)) as Out);
    *r.metadata_mut() = header;
    r
}

#[tonic::async_trait]
impl TestService for Server {
    type StreamingOutputCallStream = Out;
    type FullDuplexCallStream = Out;
    type HalfDuplexCallStream = Out;

    async fn empty_call(&self, r: Request<Empty>) -> Result<Response<Empty>, Status> {
        let (header, _) = self.metadata(r.metadata()).await;
        let mut r = Response::new(Empty {});
        *r.metadata_mut() = header;
        r.metadata_mut().insert("x-hanging", self.hanging.load(Ordering::SeqCst).to_string().parse().unwrap());
        Ok(r)
    }
    async fn unary_call(&self, r: Request<SimpleRequest>) -> Result<Response<SimpleResponse>, Status> {
        let (mut header, trailer) = self.metadata(r.metadata()).await;
        end(&r.get_ref().response_status, r.metadata(), trailer.clone())?;
        for kv in trailer.iter() { // tonic's unary responses have no trailers of their own
            match kv {
                tonic::metadata::KeyAndValueRef::Ascii(k, v) => header.insert(k, v.clone()).map(|_| ()),
                tonic::metadata::KeyAndValueRef::Binary(k, v) => header.insert_bin(k, v.clone()).map(|_| ()),
            };
        }
        let mut out = Response::new(SimpleResponse { payload: payload(r.get_ref().response_size) });
        *out.metadata_mut() = header;
        Ok(out)
    }
    async fn streaming_output_call(&self, r: Request<OutRequest>) -> Result<Response<Out>, Status> {
        let (header, _) = self.metadata(r.metadata()).await;
        let (tx, rx) = tokio::sync::mpsc::channel(1);
        let r = r.into_inner();
        tokio::spawn(async move { send(&tx, &r).await });
        Ok(answer(rx, header))
    }
    async fn streaming_input_call(&self, r: Request<Streaming<InRequest>>) -> Result<Response<InResponse>, Status> {
        self.metadata(r.metadata()).await;
        let mut sum = 0;
        let mut r = r.into_inner();
        while let Some(m) = r.message().await? {
            sum += m.payload.map_or(0, |p| p.body.len() as i32);
        }
        Ok(Response::new(InResponse { aggregated_payload_size: sum }))
    }
    async fn full_duplex_call(&self, r: Request<Streaming<OutRequest>>) -> Result<Response<Out>, Status> {
        let (header, trailer) = self.metadata(r.metadata()).await;
        let got = r.metadata().clone();
        let (tx, rx) = tokio::sync::mpsc::channel(1);
        let mut r = r.into_inner();
        tokio::spawn(async move {
            while let Ok(Some(m)) = r.message().await {
                if let Err(s) = end(&m.response_status, &got, trailer.clone()) {
                    let _ = tx.send(Err(s)).await;
                    return;
                }
                send(&tx, &m).await;
            }
        });
        Ok(answer(rx, header))
    }
    async fn half_duplex_call(&self, r: Request<Streaming<OutRequest>>) -> Result<Response<Out>, Status> {
        let (tx, rx) = tokio::sync::mpsc::channel(1);
        let mut r = r.into_inner();
        tokio::spawn(async move {
            let mut all = Vec::new();
            while let Ok(Some(m)) = r.message().await {
                all.push(m);
            }
            for m in &all {
                send(&tx, m).await;
            }
        });
        Ok(answer(rx, MetadataMap::new()))
    }
}

async fn serve(port: &str, streams: &str) {
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let (tx, rx) = tokio::sync::oneshot::channel();
    tokio::spawn(async {
        if tokio::io::stdin().read_u8().await.is_err() {
            std::process::exit(0);
        }
        let _ = tx.send(());
    });
    let streams = streams.parse().ok().filter(|n| *n > 0);
    let s = TestServiceServer::new(Server::default())
        .accept_compressed(CompressionEncoding::Gzip)
        .send_compressed(CompressionEncoding::Gzip);
    tonic::transport::Server::builder()
        .max_concurrent_streams(streams)
        .add_service(s)
        .serve_with_incoming_shutdown(tokio_stream::wrappers::TcpListenerStream::new(listener), async {
            let _ = rx.await;
        })
        .await
        .unwrap();
}

fn code<T>(r: &Result<T, Status>) -> String {
    match r {
        Ok(_) => "OK".into(),
        Err(s) => format!("{:?}", s.code()),
    }
}

fn unary(n: i32) -> SimpleRequest {
    SimpleRequest { response_size: n, payload: payload(n), response_status: None }
}

async fn connect(address: &str) -> TestServiceClient<Channel> {
    TestServiceClient::connect(format!("http://{address}")).await.unwrap()
}

async fn none(c: &mut TestServiceClient<Channel>) -> String {
    loop {
        match c.empty_call(Empty {}).await {
            Err(s) => return format!("left: {s:?}"),
            Ok(r) if r.metadata().get("x-hanging").map_or(false, |v| v == "0") => return "ended".into(),
            _ => tokio::time::sleep(Duration::from_millis(2)).await,
        }
    }
}

// Streams of one connection that exchange a message before and after something else happens to it.
struct Beside(Vec<(tokio::sync::mpsc::Sender<OutRequest>, Streaming<OutResponse>)>);

impl Beside {
    async fn ask(to: &tokio::sync::mpsc::Sender<OutRequest>) -> bool {
        to.send(OutRequest { response_parameters: vec![Parameters { size: 1000, interval_us: 0 }], ..Default::default() }).await.is_ok()
    }
    async fn answered(from: &mut Streaming<OutResponse>) -> bool {
        matches!(from.message().await, Ok(Some(m)) if m.payload.as_ref().map_or(0, |p| p.body.len()) == 1000)
    }
    async fn open(c: &mut TestServiceClient<Channel>) -> Self {
        let mut all = Vec::new();
        for _ in 0..32 {
            let (tx, rx) = tokio::sync::mpsc::channel(1);
            assert!(Self::ask(&tx).await); // the call returns with the header, which comes with the first message
            let mut from = c.full_duplex_call(tokio_stream::wrappers::ReceiverStream::new(rx)).await.unwrap().into_inner();
            assert!(Self::answered(&mut from).await);
            all.push((tx, from));
        }
        Beside(all)
    }
    async fn finish(self) -> String {
        let mut good = 0;
        for (to, mut from) in self.0 {
            let ok = Self::ask(&to).await && Self::answered(&mut from).await;
            drop(to);
            good += (ok && matches!(from.message().await, Ok(None))) as i32;
        }
        format!("{good} good")
    }
}

async fn call(address: &str) {
    let mut c = connect(address).await;
    let mut z = c.clone().send_compressed(CompressionEncoding::Gzip).accept_compressed(CompressionEncoding::Gzip);
    for n in [0, 1, 20_000, 3 << 20, 5 << 20] {
        for (name, c) in [("plain", &mut c), ("gzip", &mut z)] {
            let r = c.unary_call(unary(n)).await;
            println!("unary {name} {n}: {} {:?}", code(&r), r.ok().map(|r| r.into_inner().payload.map(|p| p.body.len())));
            let one = OutRequest { response_parameters: vec![Parameters { size: n, interval_us: 0 }; 3], payload: payload(n), response_status: None };
            let r = c.full_duplex_call(tokio_stream::iter(vec![one; 3])).await;
            print!("duplex {name} {n}: {}", code(&r));
            if let Ok(r) = r {
                let mut r = r.into_inner();
                loop {
                    match r.message().await {
                        Ok(Some(m)) => print!(" {}", m.payload.map_or(0, |p| p.body.len())),
                        Ok(None) => break,
                        Err(s) => {
                            print!(" {:?}", s.code());
                            break;
                        }
                    }
                }
            }
            println!();
        }
    }
    for n in 0..17 {
        for message in ["".to_string(), "é%\n\t \u{2028} x".into(), "long ".repeat(500)] {
            let mut r = Request::new(SimpleRequest { response_status: Some(EchoStatus { code: n, message: message.clone() }), ..Default::default() });
            r.metadata_mut().insert_bin("x-grpc-test-echo-trailing-bin", MetadataValue::from_bytes(b"\x00\xff\n"));
            match c.unary_call(r).await {
                Ok(_) => println!("status {n}: OK"),
                Err(s) => println!("status {n}: {:?} {:?} {:?} {:?}", s.code(), s.message() == message, s.details(), s.metadata().get_bin("x-grpc-test-echo-trailing-bin")),
            }
        }
    }
    let mut r = Request::new(SimpleRequest::default());
    r.metadata_mut().insert("x-grpc-test-echo-initial", "one".parse().unwrap());
    let r = c.unary_call(r).await.unwrap();
    println!("metadata: {:?} {:?}", r.metadata().get("x-grpc-test-echo-initial"), r.metadata().get("content-type"));
    let beside = Beside::open(&mut c).await;
    for n in [1000, 7000, 15_000, 30_000, 70_000] {
        for k in ["x-header-size", "x-trailer-size"] {
            let mut r = Request::new(SimpleRequest::default());
            r.metadata_mut().insert(k, n.to_string().parse().unwrap());
            println!("{k} {n}: {}", code(&c.unary_call(r).await));
        }
        let mut r = Request::new(SimpleRequest::default());
        r.metadata_mut().insert("x-a", "v".repeat(n).parse().unwrap());
        println!("request metadata {n}: {}", code(&c.unary_call(r).await));
        println!("next: {}", code(&c.empty_call(Empty {}).await));
    }
    println!("streams beside long metadata: {}", beside.finish().await);
    let r = c.streaming_output_call(OutRequest {
        response_parameters: (0..100).map(|i| Parameters { size: i * i * 10, interval_us: 0 }).collect(), ..Default::default() }).await;
    let mut r = r.unwrap().into_inner();
    let (mut n, mut sum) = (0, 0);
    while let Ok(Some(m)) = r.message().await {
        n += 1;
        sum += m.payload.map_or(0, |p| p.body.len());
    }
    println!("responses: {n} {sum}");
    let all: Vec<_> = (0..100).map(|i| InRequest { payload: payload(i * i * 10) }).collect();
    println!("requests: {:?}", c.streaming_input_call(tokio_stream::iter(all)).await.map(|r| r.into_inner().aggregated_payload_size).map_err(|s| s.code()));
    let all: Vec<_> = (0..5).map(|i| OutRequest { response_parameters: vec![Parameters { size: i, interval_us: 0 }], ..Default::default() }).collect();
    let r = c.half_duplex_call(tokio_stream::iter(all)).await.unwrap().into_inner();
    println!("half duplex: {:?}", r.map(|m| m.map(|m| m.payload.map_or(0, |p| p.body.len())).map_err(|s| s.code())).collect::<Vec<_>>().await);
    let hang = |size| {
        let mut r = Request::new(SimpleRequest { payload: payload(size), ..Default::default() });
        r.metadata_mut().insert("x-hang", "1".parse().unwrap());
        r
    };
    // The client's own deadline, and the server's.
    let mut r = hang(0);
    r.set_timeout(Duration::from_millis(50));
    println!("deadline: {} {}", c.unary_call(r).await.is_err(), none(&mut c).await);
    let mut r = hang(0);
    r.metadata_mut().insert("grpc-timeout", "50m".parse().unwrap());
    println!("the server's deadline: {} {}", c.unary_call(r).await.is_err(), none(&mut c).await);
    let mut calls = Vec::new();
    for i in 0..200 {
        let mut c = c.clone();
        let r = hang(i * 1000);
        calls.push(tokio::spawn(async move { tokio::time::timeout(Duration::from_millis(i as u64), c.unary_call(r)).await.is_err() }));
    }
    let mut dropped = 0;
    for c in calls {
        dropped += c.await.unwrap() as i32;
    }
    println!("dropped: {dropped} {}", none(&mut c).await);
    // A stream whose responses are not read, and one whose requests the handler does not read, are dropped.
    let all = OutRequest { response_parameters: vec![Parameters { size: 1 << 20, interval_us: 0 }; 100], ..Default::default() };
    let unread = c.streaming_output_call(all).await.unwrap();
    println!("beside an unread stream: {}", code(&c.unary_call(unary(100_000)).await));
    drop(unread);
    println!("after it: {}", code(&c.unary_call(unary(100_000)).await));
    println!("end: {}", none(&mut c).await);
}

async fn load(address: &str) {
    let channel = tonic::transport::Endpoint::from_shared(format!("http://{address}")).unwrap().connect_lazy();
    let over = Arc::new(AtomicBool::new(false));
    let ends = Arc::new(Mutex::new(BTreeMap::<String, usize>::new()));
    let callers: Vec<_> = (0..64)
        .map(|_| {
            let (mut c, over, ends) = (TestServiceClient::new(channel.clone()), over.clone(), ends.clone());
            tokio::spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    let r = tokio::time::timeout(Duration::from_secs(20), c.unary_call(unary(100))).await;
                    let how = match r {
                        Err(_) => "HANGS".to_string(),
                        Ok(r) => code(&r),
                    };
                    *ends.lock().unwrap().entry(how).or_default() += 1;
                }
            })
        })
        .collect();
    println!("calling");
    let mut rest = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    over.store(true, Ordering::SeqCst);
    for c in callers {
        c.await.unwrap();
    }
    println!("{:?}", ends.lock().unwrap());
}

#[tokio::main]
async fn main() {
    let args: Vec<_> = std::env::args().collect();
    match args[1].as_str() {
        "serve" => serve(&args[2], &args[3]).await,
        "call" => call(&args[2]).await,
        "load" => load(&args[2]).await,
        _ => panic!("{args:?}"),
    }
}

// An echo server on tonic: prints its address, ends with its standard input.
use tokio::io::AsyncReadExt;
use tonic::{Request, Response, Status};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Clone, PartialEq, prost::Message)]
pub struct Payload {
    #[prost(int32, tag = "1")]
    pub r#type: i32,
    #[prost(bytes = "bytes", tag = "2")]
    pub body: prost::bytes::Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SimpleRequest {
    #[prost(message, optional, tag = "3")]
    pub payload: Option<Payload>,
}

#[derive(Clone, PartialEq, prost::Message)]
pub struct SimpleResponse {
    #[prost(message, optional, tag = "1")]
    pub payload: Option<Payload>,
}

mod service {
    include!(concat!(env!("OUT_DIR"), "/grpc.testing.TestService.rs"));
}

struct Echo;

#[tonic::async_trait]
impl service::test_service_server::TestService for Echo {
    async fn unary_call(&self, r: Request<SimpleRequest>) -> Result<Response<SimpleResponse>, Status> {
        Ok(Response::new(SimpleResponse { payload: r.into_inner().payload }))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    tokio::spawn(async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        std::process::exit(0);
    });
    let echo = service::test_service_server::TestServiceServer::new(Echo)
        .max_decoding_message_size(16 << 20)
        .max_encoding_message_size(16 << 20);
    tonic::transport::Server::builder()
        .initial_stream_window_size(16 << 20)
        .initial_connection_window_size(64 << 20)
        .add_service(echo)
        .serve_with_incoming(tonic::transport::server::TcpIncoming::from(listener).with_nodelay(Some(true)))
        .await?;
    Ok(())
}

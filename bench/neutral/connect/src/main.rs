// An echo server on connect-rust, for gRPC and Connect: prints its address, ends with its standard input.
#![allow(refining_impl_trait_internal, refining_impl_trait_reachable)]
use connectrpc::{ConnectRpcService, RequestContext, Response, ServiceRequest, ServiceResult};
use tokio::io::AsyncReadExt;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub mod proto {
    connectrpc::include_generated!();
}
use proto::grpc::testing::*;

struct Echo;

impl TestService for Echo {
    async fn unary_call(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, SimpleRequest>,
    ) -> ServiceResult<SimpleResponse> {
        Response::ok(SimpleResponse {
            payload: request.to_owned_message().payload,
            ..Default::default()
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let bound = connectrpc::server::Server::bind("127.0.0.1:0").await?;
    println!("{}", bound.local_addr()?);
    tokio::spawn(async {
        let mut rest = Vec::new();
        let _ = tokio::io::stdin().read_to_end(&mut rest).await;
        std::process::exit(0);
    });
    bound
        .serve_with_service(ConnectRpcService::new(TestServiceServer::new(Echo)))
        .await?;
    Ok(())
}

// The service is described here, so that no protoc is needed.
fn main() {
    let method = tonic_build::manual::Method::builder()
        .name("unary_call")
        .route_name("UnaryCall")
        .input_type("crate::SimpleRequest")
        .output_type("crate::SimpleResponse")
        .codec_path("tonic_prost::ProstCodec")
        .build();
    let service = tonic_build::manual::Service::builder()
        .name("TestService")
        .package("grpc.testing")
        .method(method)
        .build();
    tonic_build::manual::Builder::new().build_client(false).compile(&[service]);
}

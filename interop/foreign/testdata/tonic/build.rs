// The service is described here, so that no protoc is needed.
fn main() {
    let mut service = tonic_build::manual::Service::builder().name("TestService").package("grpc.testing");
    for (name, route, input, output, up, down) in [
        ("empty_call", "EmptyCall", "Empty", "Empty", false, false),
        ("unary_call", "UnaryCall", "SimpleRequest", "SimpleResponse", false, false),
        ("streaming_output_call", "StreamingOutputCall", "OutRequest", "OutResponse", false, true),
        ("streaming_input_call", "StreamingInputCall", "InRequest", "InResponse", true, false),
        ("full_duplex_call", "FullDuplexCall", "OutRequest", "OutResponse", true, true),
        ("half_duplex_call", "HalfDuplexCall", "OutRequest", "OutResponse", true, true),
    ] {
        let mut m = tonic_build::manual::Method::builder()
            .name(name)
            .route_name(route)
            .input_type(format!("crate::{input}"))
            .output_type(format!("crate::{output}"))
            .codec_path("tonic::codec::ProstCodec");
        if up {
            m = m.client_streaming();
        }
        if down {
            m = m.server_streaming();
        }
        service = service.method(m.build());
    }
    tonic_build::manual::Builder::new().compile(&[service.build()]);
}

use connectrpc_build::CodeGenConfig;

// Command neutral writes the descriptor, so that no protoc is needed. Bytes are slices of the request.
fn main() {
    let mut config = CodeGenConfig::default();
    config.bytes_fields = vec![(".".into(), buffa_codegen::BytesRepr::Bytes)];
    config.generate_json = false;
    connectrpc_build::Config::new()
        .buffa_config(config)
        .descriptor_set("echo.binpb")
        .files(&["echo.proto"])
        .include_file("_connectrpc.rs")
        .compile()
        .unwrap();
}

// An echo server on gRPC C++ (callback API): prints its address, ends with its standard input.
#include <grpcpp/grpcpp.h>
#include <iostream>
#include <iterator>
#include "echo.grpc.pb.h"

class Echo final : public grpc::testing::TestService::CallbackService {
  grpc::ServerUnaryReactor* UnaryCall(grpc::CallbackServerContext* context, const grpc::testing::SimpleRequest* request,
                                      grpc::testing::SimpleResponse* response) override {
    *response->mutable_payload() = request->payload();
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

int main() {
  Echo echo;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(16 << 20);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&echo);
  auto server = builder.BuildAndStart();
  std::cout << "127.0.0.1:" << port << std::endl;
  std::string rest((std::istreambuf_iterator<char>(std::cin)), std::istreambuf_iterator<char>());
  server->Shutdown();
}

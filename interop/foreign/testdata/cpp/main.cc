// The interop test service on gRPC C++, and a client of it.
//
//   foreign serve PORT MAXSTREAMS MAXAGE GZIP CERT KEY  prints its port; 0 and "" are defaults, MAXAGE is in ms. A line on
//                                                       standard input ends it gracefully, its end ends it at once
//   foreign call ADDRESS           makes calls and prints a line for each: what was observed
//   foreign load ADDRESS           64 callers until standard input ends; prints how their calls ended
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "grpc/testing/test.grpc.pb.h"

namespace pb = grpc::testing;
using grpc::ClientContext;
using grpc::ServerContext;
using grpc::Status;
using grpc::StatusCode;
using std::string;

static string file(const string& name) {
  std::ifstream in(name);
  std::stringstream all;
  all << in.rdbuf();
  return all.str();
}

static void fill(pb::Payload* p, int n) { p->set_body(string(n, 'x')); }

// The server.

static std::atomic<int> hanging;

static string value(const ServerContext* c, const char* key) {
  auto it = c->client_metadata().find(key);
  return it == c->client_metadata().end() ? "" : string(it->second.data(), it->second.size());
}

static void wait_for_end(const ServerContext* c) {
  hanging++;
  while (!c->IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  hanging--;
}

// The header and the trailer that the request's metadata ask for; waits until the call has ended when they ask for it.
static void metadata(ServerContext* c) {
  string v;
  if (!(v = value(c, "x-grpc-test-echo-initial")).empty()) c->AddInitialMetadata("x-grpc-test-echo-initial", v);
  if (!(v = value(c, "x-grpc-test-echo-trailing-bin")).empty()) c->AddTrailingMetadata("x-grpc-test-echo-trailing-bin", v);
  if (!(v = value(c, "x-header-size")).empty()) c->AddInitialMetadata("x-big", string(std::stoi(v), 'h'));
  if (!(v = value(c, "x-trailer-size")).empty()) c->AddTrailingMetadata("x-big", string(std::stoi(v), 't'));
  if (c->client_metadata().count("x-hang")) wait_for_end(c);
}

static Status end(const ServerContext* c, const pb::EchoStatus& s) {
  if (s.code() == 0) return Status::OK;
  return Status(StatusCode(s.code()), s.message(), value(c, "x-details-bin"));
}

template <class Out>
static bool send(const pb::StreamingOutputCallRequest& in, Out* out) {
  for (auto& p : in.response_parameters()) {
    std::this_thread::sleep_for(std::chrono::microseconds(p.interval_us()));
    pb::StreamingOutputCallResponse m;
    fill(m.mutable_payload(), p.size());
    if (!out->Write(m)) return false;
  }
  return true;
}

class Service final : public pb::TestService::Service {
  using Both = grpc::ServerReaderWriter<pb::StreamingOutputCallResponse, pb::StreamingOutputCallRequest>;

  Status EmptyCall(ServerContext* c, const pb::Empty*, pb::Empty*) override {
    metadata(c);
    c->AddTrailingMetadata("x-hanging", std::to_string(hanging));
    return Status::OK;
  }
  Status UnaryCall(ServerContext* c, const pb::SimpleRequest* in, pb::SimpleResponse* out) override {
    metadata(c);
    fill(out->mutable_payload(), in->response_size());
    return end(c, in->response_status());
  }
  Status StreamingOutputCall(ServerContext* c, const pb::StreamingOutputCallRequest* in,
                             grpc::ServerWriter<pb::StreamingOutputCallResponse>* out) override {
    metadata(c);
    send(*in, out);
    return Status::OK;
  }
  Status StreamingInputCall(ServerContext* c, grpc::ServerReader<pb::StreamingInputCallRequest>* in,
                            pb::StreamingInputCallResponse* out) override {
    metadata(c);
    pb::StreamingInputCallRequest m;
    int sum = 0;
    while (in->Read(&m)) sum += m.payload().body().size();
    out->set_aggregated_payload_size(sum);
    return Status::OK;
  }
  Status FullDuplexCall(ServerContext* c, Both* both) override {
    metadata(c);
    pb::StreamingOutputCallRequest m;
    while (both->Read(&m)) {
      Status s = end(c, m.response_status());
      if (!s.ok()) return s;
      if (!send(m, both)) break;
    }
    return Status::OK;
  }
  Status HalfDuplexCall(ServerContext*, Both* both) override {
    std::vector<pb::StreamingOutputCallRequest> all;
    pb::StreamingOutputCallRequest m;
    while (both->Read(&m)) all.push_back(m);
    for (auto& m : all)
      if (!send(m, both)) break;
    return Status::OK;
  }
};

static int serve(char** args) {
  Service service;
  grpc::ServerBuilder b;
  int port = 0;
  auto creds = grpc::InsecureServerCredentials();
  if (*args[4]) {
    grpc::SslServerCredentialsOptions o;
    o.pem_key_cert_pairs.push_back({file(args[5]), file(args[4])});
    creds = grpc::SslServerCredentials(o);
  }
  if (atoi(args[1])) b.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, atoi(args[1]));
  if (atoi(args[2])) {
    b.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, atoi(args[2]));
    b.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 10000);
  }
  if (atoi(args[3])) b.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_GZIP);
  b.AddListeningPort(string("127.0.0.1:") + args[0], creds, &port);
  b.RegisterService(&service);
  auto server = b.BuildAndStart();
  if (!server) return 1;
  std::cout << port << std::endl;
  string line;
  if (!std::getline(std::cin, line)) _exit(0);
  server->Shutdown(std::chrono::system_clock::now() + std::chrono::minutes(10));  // the test bounds it, and kills the process
  server->Wait();
  _exit(0);
}

// The client.

static std::unique_ptr<pb::TestService::Stub> stub;

static void within(ClientContext* c, int ms) { c->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(ms)); }

static string none() {
  for (;;) {
    ClientContext c;
    within(&c, 20000);
    pb::Empty out;
    Status s = stub->EmptyCall(&c, pb::Empty(), &out);
    if (!s.ok()) return "left: " + s.error_message();
    for (auto* all : {&c.GetServerTrailingMetadata(), &c.GetServerInitialMetadata()}) {
      auto it = all->find("x-hanging");
      if (it != all->end() && it->second == "0") return "ended";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

static string text(const Status& s) { return std::to_string(s.error_code()); }

// The end of a call whose deadline passes on both sides: gRPC C++ returns CANCELLED when the server's reset is first.
static string late(const Status& s) {
  return s.error_code() == StatusCode::CANCELLED || s.error_code() == StatusCode::DEADLINE_EXCEEDED ? "late" : text(s);
}

static pb::SimpleRequest request(int n, int answer) {
  pb::SimpleRequest in;
  in.set_response_size(answer);
  if (n) fill(in.mutable_payload(), n);
  return in;
}

static pb::StreamingOutputCallRequest ask(std::vector<int> sizes, int n) {
  pb::StreamingOutputCallRequest in;
  for (int size : sizes) in.add_response_parameters()->set_size(size);
  fill(in.mutable_payload(), n);
  return in;
}

// One unary call without a body; its code.
static string call(ClientContext* c) {
  within(c, 20000);
  pb::SimpleResponse out;
  return text(stub->UnaryCall(c, request(0, 0), &out));
}

// 32 streams of one connection that exchange a message before and after something else happens to it.
struct Beside {
  using Stream = grpc::ClientReaderWriter<pb::StreamingOutputCallRequest, pb::StreamingOutputCallResponse>;
  std::vector<std::unique_ptr<ClientContext>> contexts;
  std::vector<std::unique_ptr<Stream>> streams;
  static bool echo(Stream* s) {
    pb::StreamingOutputCallResponse m;
    return s->Write(ask({1000}, 10)) && s->Read(&m) && m.payload().body().size() == 1000;
  }
  Beside() {
    for (int i = 0; i < 32; i++) {
      contexts.push_back(std::make_unique<ClientContext>());
      within(contexts.back().get(), 60000);
      streams.push_back(stub->FullDuplexCall(contexts.back().get()));
      if (!echo(streams.back().get())) std::cout << "a stream does not begin" << std::endl;
    }
  }
  string finish() {
    int good = 0;
    for (auto& s : streams) {
      bool ok = echo(s.get());
      s->WritesDone();
      good += s->Finish().ok() && ok;
    }
    return std::to_string(good) + " good";
  }
};

static int calls(const string& address) {
  grpc::ChannelArguments args;
  args.SetMaxReceiveMessageSize(6 << 20);
  stub = pb::TestService::NewStub(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), args));
  for (int n : {0, 1, 20000, 4 << 20, 5 << 20})
    for (auto how : {GRPC_COMPRESS_NONE, GRPC_COMPRESS_GZIP, GRPC_COMPRESS_DEFLATE}) {
      if (how == GRPC_COMPRESS_DEFLATE && n != 20000) continue;
      {
        ClientContext c;
        within(&c, 20000);
        c.set_compression_algorithm(how);
        pb::SimpleResponse out;
        Status s = stub->UnaryCall(&c, request(n, n), &out);
        std::cout << "unary " << how << " " << n << ": " << text(s) << " " << out.payload().body().size() << std::endl;
      }
      ClientContext c;
      within(&c, 20000);
      c.set_compression_algorithm(how);
      auto s = stub->FullDuplexCall(&c);
      std::cout << "duplex " << how << " " << n << ":";
      for (int i = 0; i < 3; i++) {
        pb::StreamingOutputCallResponse m;
        if (!s->Write(ask({n, n}, n)) || !s->Read(&m)) break;
        std::cout << " " << m.payload().body().size();
        if (!s->Read(&m)) break;
        std::cout << " " << m.payload().body().size();
      }
      s->WritesDone();
      std::cout << " " << text(s->Finish()) << std::endl;
    }
  for (int n = 0; n < 17; n++)
    for (string message : {string(), string("é%\n\t \xe2\x80\xa8 x"), string(2500, 'l')}) {
      ClientContext c;
      within(&c, 20000);
      c.AddMetadata("x-grpc-test-echo-trailing-bin", string("\0\xff\n", 3));
      pb::SimpleRequest in;
      in.mutable_response_status()->set_code(n);
      in.mutable_response_status()->set_message(message);
      pb::SimpleResponse out;
      Status s = stub->UnaryCall(&c, in, &out);
      auto it = c.GetServerTrailingMetadata().find("x-grpc-test-echo-trailing-bin");
      std::cout << "status " << n << ": " << text(s) << " " << (s.error_message() == message) << " " << s.error_details().size() << " "
                << (it != c.GetServerTrailingMetadata().end() && it->second == grpc::string_ref("\0\xff\n", 3)) << std::endl;
    }
  {
    ClientContext c;
    c.AddMetadata("x-grpc-test-echo-initial", "one");
    std::cout << "metadata: " << call(&c);
    for (auto& kv : c.GetServerInitialMetadata()) std::cout << " " << kv.first << "=" << kv.second;
    std::cout << std::endl;
  }
  Beside beside;
  for (int n : {1000, 7000, 30000, 70000}) {
    for (string key : {"x-header-size", "x-trailer-size"}) {
      ClientContext c;
      c.AddMetadata(key, std::to_string(n));
      std::cout << key << " " << n << ": " << call(&c) << std::endl;
    }
    ClientContext c, next;
    c.AddMetadata("x-a", string(n, 'v'));
    std::cout << "request metadata " << n << ": " << call(&c);
    std::cout << " next " << call(&next) << std::endl;
  }
  std::cout << "streams beside long metadata: " << beside.finish() << std::endl;
  {
    std::vector<int> sizes;
    for (int i = 0; i < 100; i++) sizes.push_back(i * i * 10);
    ClientContext c;
    auto s = stub->StreamingOutputCall(&c, ask(sizes, 0));
    pb::StreamingOutputCallResponse m;
    size_t n = 0, sum = 0;
    while (s->Read(&m)) n++, sum += m.payload().body().size();
    std::cout << "responses: " << n << " " << sum << " " << text(s->Finish()) << std::endl;
  }
  {
    ClientContext c;
    pb::StreamingInputCallResponse out;
    auto s = stub->StreamingInputCall(&c, &out);
    for (int i = 0; i < 100; i++) {
      pb::StreamingInputCallRequest m;
      fill(m.mutable_payload(), i * i * 10);
      s->Write(m);
    }
    s->WritesDone();
    std::cout << "requests: " << text(s->Finish());
    std::cout << " " << out.aggregated_payload_size() << std::endl;
  }
  {
    ClientContext c;
    auto s = stub->HalfDuplexCall(&c);
    for (int i = 0; i < 5; i++) s->Write(ask({i}, 0));
    s->WritesDone();
    pb::StreamingOutputCallResponse m;
    std::cout << "half duplex:";
    while (s->Read(&m)) std::cout << " " << m.payload().body().size();
    std::cout << " " << text(s->Finish()) << std::endl;
  }
  {
    ClientContext c;
    pb::Empty out;
    std::cout << "unimplemented: " << text(stub->UnimplementedCall(&c, pb::Empty(), &out)) << std::endl;
  }
  {
    ClientContext c;
    c.AddMetadata("x-hang", "1");
    within(&c, 50);
    pb::SimpleResponse out;
    std::cout << "deadline: " << late(stub->UnaryCall(&c, request(0, 0), &out));
    std::cout << " " << none() << std::endl;
  }
  {
    ClientContext c;
    c.AddMetadata("x-hang", "1");
    within(&c, 200);
    pb::StreamingInputCallResponse out;
    auto s = stub->StreamingInputCall(&c, &out);
    pb::StreamingInputCallRequest m;
    fill(m.mutable_payload(), 1 << 20);
    while (s->Write(m)) {
    }
    std::cout << "deadline of a large request: " << late(s->Finish());
    std::cout << " " << none() << std::endl;
  }
  {
    std::vector<std::thread> all;
    std::atomic<int> cancelled{0};
    for (int i = 0; i < 100; i++)
      all.emplace_back([i, &cancelled] {
        ClientContext c;
        c.AddMetadata("x-hang", "1");
        within(&c, 20000);
        std::thread canceller([i, &c] {
          std::this_thread::sleep_for(std::chrono::milliseconds(i));
          c.TryCancel();
        });
        pb::SimpleResponse out;
        Status s = stub->UnaryCall(&c, request(i * 1000, 0), &out);
        canceller.join();
        cancelled += s.error_code() == StatusCode::CANCELLED;
      });
    for (auto& t : all) t.join();
    std::cout << "cancelled: " << cancelled << " " << none() << std::endl;
  }
  {
    ClientContext c, next;
    auto unread = stub->StreamingOutputCall(&c, ask(std::vector<int>(100, 1 << 20), 0));
    std::cout << "beside an unread stream: " << call(&next) << std::endl;
    c.TryCancel();
    std::cout << "after it: " << text(unread->Finish()) << std::endl;
  }
  std::cout << "end: " << none() << std::endl;
  return 0;
}

static int load(const string& address) {
  stub = pb::TestService::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  std::atomic<bool> over{false};
  std::mutex mu;
  std::map<string, int> ends;
  std::vector<std::thread> all;
  for (int i = 0; i < 64; i++)
    all.emplace_back([&] {
      while (!over) {
        ClientContext c;
        within(&c, 20000);
        pb::SimpleResponse out;
        Status s = stub->UnaryCall(&c, request(100, 100), &out);
        string how = s.ok() ? "OK" : text(s) == "4" ? "HANGS" : text(s) + " " + s.error_message();
        std::lock_guard<std::mutex> lock(mu);
        ends[how]++;
      }
    });
  string line;
  while (std::getline(std::cin, line)) {
  }
  over = true;
  for (auto& t : all) t.join();
  for (auto& e : ends) std::cout << e.first << ": " << e.second << std::endl;
  return 0;
}

int main(int n, char** args) {
  string what = n > 2 ? args[1] : "";
  if (what == "serve" && n == 8) return serve(args + 2);
  if (what == "call") return calls(args[2]);
  if (what == "load") return load(args[2]);
  std::cerr << "unknown arguments" << std::endl;
  return 2;
}

// A client of ROCmForge in C++, built on grpc++ and the .proto files. In a checkout, or the installed npm package:
//
//   apt-get install g++ pkg-config protobuf-compiler protobuf-compiler-grpc libgrpc++-dev
//   sh examples/cpp/build.sh build/cpp
//   build/cpp/client 127.0.0.1:50051 [PROMPT]
//
// Streams a generation, cancels one, lets one run into its deadline, and reads the details of an error.
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "rocmforge/v1/inference.grpc.pb.h"

namespace pb = rocmforge::v1;

// Runs a generation to its end and calls on_message for each message.
static grpc::Status generate(pb::InferenceService::Stub& stub, grpc::ClientContext& context,
                             const pb::GenerateStreamRequest& request,
                             const std::function<void(const pb::GenerateStreamResponse&)>& on_message) {
  const auto reader = stub.GenerateStream(&context, request);
  pb::GenerateStreamResponse message;
  while (reader->Read(&message)) on_message(message);
  return reader->Finish();
}

// The google.rpc.ErrorInfo that every error of a gateway carries: reason, domain and metadata.
static google::rpc::ErrorInfo error_info(const grpc::Status& status) {
  google::rpc::Status details;
  details.ParseFromString(status.error_details());
  for (const auto& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.Is<google::rpc::ErrorInfo>() && detail.UnpackTo(&info)) return info;
  }
  return {};
}

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: client ADDRESS [PROMPT]\n";
    return 2;
  }
  const auto channel = grpc::CreateChannel(argv[1], grpc::InsecureChannelCredentials());
  const auto stub = pb::InferenceService::NewStub(channel);
  pb::GenerateStreamRequest request;
  request.mutable_text()->set_text(argc > 2 ? argv[2] : "Once upon a time");
  request.mutable_sampling()->set_temperature(0);
  request.mutable_stop()->set_max_tokens(60);
  const auto ignore = [](const pb::GenerateStreamResponse&) {};

  grpc::ClientContext streamed;
  generate(*stub, streamed, request, [](const pb::GenerateStreamResponse& message) {
    if (message.has_chunk()) std::cout << message.chunk().text() << std::flush;
    if (message.has_complete()) {
      std::cout << "\n"
                << pb::FinishReason_Name(message.complete().finish_reason()) << ": "
                << message.complete().usage().completion_tokens() << " tokens\n";
    }
  });

  request.mutable_stop()->set_max_tokens(400);
  request.mutable_stop()->set_ignore_eos(true);
  grpc::ClientContext cancelled;
  int chunks = 0;
  const grpc::Status after_cancel = generate(*stub, cancelled, request, [&](const pb::GenerateStreamResponse&) {
    if (++chunks == 3) cancelled.TryCancel();
  });
  const bool is_cancelled = after_cancel.error_code() == grpc::StatusCode::CANCELLED;
  std::cout << "cancelled after 3 chunks: " << (is_cancelled ? "CANCELLED" : "NOT CANCELLED") << "\n";

  grpc::ClientContext late;
  late.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
  const bool is_late = generate(*stub, late, request, ignore).error_code() == grpc::StatusCode::DEADLINE_EXCEEDED;
  std::cout << "with a deadline of 20 ms: " << (is_late ? "DEADLINE_EXCEEDED" : "IN TIME") << "\n";

  request.mutable_sampling()->set_top_p(2);
  grpc::ClientContext wrong;
  const grpc::Status refused = generate(*stub, wrong, request, ignore);
  const bool is_invalid = refused.error_code() == grpc::StatusCode::INVALID_ARGUMENT;
  google::rpc::ErrorInfo info = error_info(refused);
  std::cout << "with top_p 2: " << (is_invalid ? "INVALID_ARGUMENT" : "?") << " " << info.reason() << ": "
            << refused.error_message() << " (" << (*info.mutable_metadata())["field"] << ")\n";
}

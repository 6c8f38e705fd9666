#!/bin/sh
# Builds examples/cpp/client.cc into the given folder.
set -eu
cd "$(dirname "$0")/../.."
out=${1:-build/cpp}
mkdir -p "$out"
protos="rocmforge/v1/inference.proto google/rpc/status.proto google/rpc/error_details.proto"
# shellcheck disable=SC2086
protoc -I proto --cpp_out="$out" --grpc_out="$out" --plugin=protoc-gen-grpc="$(command -v grpc_cpp_plugin)" $protos
# shellcheck disable=SC2046
c++ -std=c++17 -O1 -I "$out" -o "$out/client" examples/cpp/client.cc "$out"/rocmforge/v1/*.cc \
  "$out"/google/rpc/*.pb.cc $(pkg-config --cflags --libs grpc++ protobuf)

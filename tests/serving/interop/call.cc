// Calls a gRPC method with bytes, by gRPC's C++ library. The options are told in callers.py.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

using Options = std::multimap<std::string, std::string>;

static std::string read(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

static std::string first(const Options& options, const std::string& key) {
  auto found = options.find(key);
  return found == options.end() ? "" : found->second;
}

static int number(const Options& options, const std::string& key) {
  const std::string text = first(options, key);
  return text.empty() ? 0 : std::stoi(text);
}

static std::string bytes_of(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  buffer.Dump(&slices);
  std::string all;
  for (const auto& one : slices) all.append(reinterpret_cast<const char*>(one.begin()), one.size());
  return all;
}

// One call, and what it is waiting for.
struct Call {
  enum State { kStart, kWrite, kRead, kFinish } state = kStart;
  int index = 0;
  int left = 0;  // answers of a stream until it is cancelled
  grpc::ClientContext context;
  grpc::ByteBuffer answer;
  grpc::Status status;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> unary;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream;
};

class Caller {
 public:
  explicit Caller(const Options& options) : options_(options) {
    grpc::ChannelArguments settings;
    settings.SetMaxReceiveMessageSize(-1);
    settings.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    if (const int every = number(options, "keepalive")) {
      settings.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, every);
      settings.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
      settings.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    }
    auto credentials = grpc::InsecureChannelCredentials();
    if (options.count("ca")) {
      grpc::SslCredentialsOptions trusted;
      trusted.pem_root_certs = read(first(options, "ca"));
      credentials = grpc::SslCredentials(trusted);
    }
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(first(options, "address"), credentials, settings));
    auto range = options.equal_range("request");
    for (auto one = range.first; one != range.second; ++one) bodies_.push_back(read(one->second));
    answers_.resize(bodies_.size());
  }

  int Run() {
    const int count = std::max(1, number(options_, "calls"));
    const int pause = number(options_, "pause");
    std::vector<std::unique_ptr<Call>> calls;
    for (int i = 0; i < count; ++i) {
      calls.push_back(Start(i % bodies_.size()));
      if (pause) {
        Finish(1);
        std::this_thread::sleep_for(std::chrono::milliseconds(pause));
      }
    }
    std::thread canceller;
    if (const int after = number(options_, "cancel")) {
      canceller = std::thread([&calls, after] {
        std::this_thread::sleep_for(std::chrono::milliseconds(after));
        for (auto& call : calls) call->context.TryCancel();
      });
    }
    if (!pause) Finish(count);
    if (canceller.joinable()) canceller.join();
    Write();
    std::cout << "codes";
    for (auto& call : calls) std::cout << ' ' << call->status.error_code();
    std::cout << std::endl;
    return 0;
  }

 private:
  std::unique_ptr<Call> Start(int index) {
    auto call = std::make_unique<Call>();
    call->index = index;
    if (const int limit = number(options_, "timeout")) {
      call->context.set_deadline(std::chrono::system_clock::now() +
                                 std::chrono::milliseconds(limit));
    }
    if (options_.count("gzip")) call->context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
    auto range = options_.equal_range("metadata");
    for (auto one = range.first; one != range.second; ++one) {
      const auto at = one->second.find(':');
      call->context.AddMetadata(one->second.substr(0, at), one->second.substr(at + 1));
    }
    const std::string path = first(options_, "path");
    if (options_.count("stream")) {
      call->left = number(options_, "stream");
      call->stream = stub_->PrepareCall(&call->context, path, &queue_);
      call->stream->StartCall(call.get());
      return call;
    }
    grpc::Slice slice(bodies_[index]);
    grpc::ByteBuffer body(&slice, 1);
    call->unary = stub_->PrepareUnaryCall(&call->context, path, body, &queue_);
    call->unary->StartCall();
    call->state = Call::kFinish;
    call->unary->Finish(&call->answer, &call->status, call.get());
    return call;
  }

  void Finish(int count) {
    void* tag;
    bool ok;
    while (count > 0 && queue_.Next(&tag, &ok)) count -= Step(static_cast<Call*>(tag), ok);
  }

  // Whether the call is over.
  bool Step(Call* call, bool ok) {
    if (call->state == Call::kFinish) {
      if (!call->status.ok()) message_ = call->status.error_message();
      else if (call->unary) answers_[call->index].insert(bytes_of(call->answer));
      return true;
    }
    if (call->state == Call::kStart && ok) {
      call->state = Call::kWrite;
      grpc::Slice slice(bodies_[call->index]);
      call->stream->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), call);
      return false;
    }
    if (call->state == Call::kRead && ok) {
      answers_[call->index].insert(bytes_of(call->answer));
      if (--call->left == 0) call->context.TryCancel();
    }
    if (ok) {
      call->state = Call::kRead;
      call->stream->Read(&call->answer, call);
    } else {
      call->state = Call::kFinish;
      call->stream->Finish(&call->status, call);
    }
    return false;
  }

  void Write() {
    const std::string folder = first(options_, "out");
    for (size_t index = 0; index < answers_.size(); ++index) {
      int k = 0;
      for (const auto& answer : answers_[index]) {
        std::ofstream(folder + "/" + std::to_string(index) + "." + std::to_string(k++),
                      std::ios::binary) << answer;
      }
    }
    std::ofstream(folder + "/message") << message_;
  }

  const Options& options_;
  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
  std::vector<std::string> bodies_;
  std::vector<std::set<std::string>> answers_;
  std::string message_;
};

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    const auto at = argument.find('=');
    options.emplace(argument.substr(0, at), argument.substr(at + 1));
  }
  return Caller(options).Run();
}

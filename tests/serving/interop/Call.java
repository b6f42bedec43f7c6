// Calls a gRPC method with bytes, by grpc-java on Netty. The options are told in callers.py.
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.Status;
import io.grpc.netty.GrpcSslContexts;
import io.grpc.netty.NettyChannelBuilder;
import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

public final class Call {
  private static final Map<String, List<String>> OPTIONS = new HashMap<>();
  private static final List<byte[]> BODIES = new ArrayList<>();
  private static final List<List<byte[]>> ANSWERS = new ArrayList<>();
  private static final Timer TIMER = new Timer(true);
  private static String message = "";

  private static final MethodDescriptor.Marshaller<byte[]> AS_IS =
      new MethodDescriptor.Marshaller<byte[]>() {
        @Override
        public InputStream stream(byte[] value) {
          return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
          try {
            return stream.readAllBytes();
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        }
      };

  private static List<String> all(String key) {
    return OPTIONS.getOrDefault(key, List.of());
  }

  private static int number(String key) {
    return all(key).isEmpty() ? 0 : Integer.parseInt(all(key).get(0));
  }

  private static synchronized void keep(int index, byte[] answer) {
    if (ANSWERS.get(index).stream().noneMatch(other -> Arrays.equals(other, answer))) {
      ANSWERS.get(index).add(answer);
    }
  }

  private static synchronized int ended(Status status) {
    if (!status.isOk()) {
      message = status.getDescription() == null ? "" : status.getDescription();
    }
    return status.getCode().value();
  }

  private static Metadata metadata() {
    Metadata made = new Metadata();
    for (String pair : all("metadata")) {
      int at = pair.indexOf(':');
      String name = pair.substring(0, at);
      String value = pair.substring(at + 1);
      if (name.endsWith("-bin")) {
        made.put(Metadata.Key.of(name, Metadata.BINARY_BYTE_MARSHALLER), value.getBytes());
      } else {
        made.put(Metadata.Key.of(name, Metadata.ASCII_STRING_MARSHALLER), value);
      }
    }
    return made;
  }

  private static CompletableFuture<Integer> call(ManagedChannel channel, int index) {
    boolean streams = number("stream") > 0;
    MethodDescriptor<byte[], byte[]> method =
        MethodDescriptor.newBuilder(AS_IS, AS_IS)
            .setType(streams ? MethodType.SERVER_STREAMING : MethodType.UNARY)
            .setFullMethodName(all("path").get(0).substring(1))
            .build();
    CallOptions options = CallOptions.DEFAULT.withMaxInboundMessageSize(Integer.MAX_VALUE);
    if (number("timeout") > 0) {
      options = options.withDeadlineAfter(number("timeout"), TimeUnit.MILLISECONDS);
    }
    if (!all("gzip").isEmpty()) {
      options = options.withCompression("gzip");
    }
    ClientCall<byte[], byte[]> running = channel.newCall(method, options);
    CompletableFuture<Integer> code = new CompletableFuture<>();
    running.start(
        new ClientCall.Listener<byte[]>() {
          private int left = number("stream");

          @Override
          public void onMessage(byte[] answer) {
            keep(index, answer);
            left -= 1;
            if (left == 0) {
              running.cancel("enough", null);
            }
          }

          @Override
          public void onClose(Status status, Metadata trailers) {
            code.complete(ended(status));
          }
        },
        metadata());
    running.request(Math.max(2, number("stream")));
    running.sendMessage(BODIES.get(index));
    running.halfClose();
    if (number("cancel") > 0) {
      TIMER.schedule(
          new TimerTask() {
            @Override
            public void run() {
              running.cancel("cancelled", null);
            }
          },
          number("cancel"));
    }
    return code;
  }

  private static ManagedChannel connect() throws IOException {
    NettyChannelBuilder builder = NettyChannelBuilder.forTarget(all("address").get(0));
    builder.maxInboundMessageSize(Integer.MAX_VALUE).disableRetry();
    if (number("keepalive") > 0) {
      builder.keepAliveTime(number("keepalive"), TimeUnit.MILLISECONDS).keepAliveWithoutCalls(true);
    }
    if (all("ca").isEmpty()) {
      return builder.usePlaintext().build();
    }
    File authority = new File(all("ca").get(0));
    return builder.sslContext(GrpcSslContexts.forClient().trustManager(authority).build()).build();
  }

  public static void main(String[] arguments) throws Exception {
    for (String argument : arguments) {
      int at = argument.indexOf('=');
      OPTIONS
          .computeIfAbsent(argument.substring(0, at), key -> new ArrayList<>())
          .add(argument.substring(at + 1));
    }
    for (String file : all("request")) {
      BODIES.add(Files.readAllBytes(Paths.get(file)));
      ANSWERS.add(new ArrayList<>());
    }
    ManagedChannel channel = connect();
    List<CompletableFuture<Integer>> calls = new ArrayList<>();
    for (int i = 0; i < Math.max(1, number("calls")); i++) {
      calls.add(call(channel, i % BODIES.size()));
      if (number("pause") > 0) {
        calls.get(i).get();
        Thread.sleep(number("pause"));
      }
    }
    StringBuilder codes = new StringBuilder("codes");
    for (CompletableFuture<Integer> one : calls) {
      codes.append(' ').append(one.get());
    }
    Path out = Paths.get(all("out").get(0));
    for (int index = 0; index < ANSWERS.size(); index++) {
      for (int k = 0; k < ANSWERS.get(index).size(); k++) {
        Files.write(out.resolve(index + "." + k), ANSWERS.get(index).get(k));
      }
    }
    Files.write(out.resolve("message"), message.getBytes("UTF-8"));
    channel.shutdownNow();
    System.out.println(codes);
    System.exit(0);
  }
}

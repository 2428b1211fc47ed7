// A program of somebody who uses com.segment.analytics.java: only the endpoint is not the default.
import com.google.gson.Gson;
import com.google.gson.reflect.TypeToken;
import com.segment.analytics.Analytics;
import com.segment.analytics.Callback;
import com.segment.analytics.messages.AliasMessage;
import com.segment.analytics.messages.GroupMessage;
import com.segment.analytics.messages.IdentifyMessage;
import com.segment.analytics.messages.Message;
import com.segment.analytics.messages.MessageBuilder;
import com.segment.analytics.messages.PageMessage;
import com.segment.analytics.messages.ScreenMessage;
import com.segment.analytics.messages.TrackMessage;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Date;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

public class Program {
  public static void main(String[] arguments) throws Exception {
    String json = Files.readString(Path.of(System.getenv("CALLS")));
    List<Map<String, Object>> said = new Gson().fromJson(json, new TypeToken<List<Map<String, Object>>>() {}.getType());
    CountDownLatch open = new CountDownLatch(said.size());
    Analytics analytics =
        Analytics.builder(System.getenv("WRITE_KEY"))
            .endpoint(System.getenv("HOST"))
            .callback(counting(open))
            .build();
    for (Map<String, Object> call : said) {
      analytics.enqueue(message(call));
    }
    analytics.flush();
    boolean done = open.await(30, TimeUnit.SECONDS);
    analytics.shutdown();
    System.exit(done ? 0 : 1);
  }

  static MessageBuilder<?, ?> message(Map<String, Object> call) {
    MessageBuilder<?, ?> builder = ofType(call);
    if (call.containsKey("userId")) builder.userId((String) call.get("userId"));
    if (call.containsKey("anonymousId")) builder.anonymousId((String) call.get("anonymousId"));
    if (call.containsKey("context")) builder.context(map(call, "context"));
    if (call.containsKey("timestamp")) builder.timestamp(Date.from(Instant.parse((String) call.get("timestamp"))));
    if (call.containsKey("integrations")) {
      map(call, "integrations").forEach((name, wanted) -> builder.enableIntegration(name, (Boolean) wanted));
    }
    return builder;
  }

  static MessageBuilder<?, ?> ofType(Map<String, Object> call) {
    String name = (String) call.get("name");
    switch ((String) call.get("type")) {
      case "identify":
        return IdentifyMessage.builder().traits(map(call, "traits"));
      case "track":
        return TrackMessage.builder((String) call.get("event")).properties(map(call, "properties"));
      case "page":
        return PageMessage.builder(name).category((String) call.get("category")).properties(map(call, "properties"));
      case "screen":
        return ScreenMessage.builder(name).properties(map(call, "properties"));
      case "group":
        return GroupMessage.builder((String) call.get("groupId")).traits(map(call, "traits"));
      default:
        return AliasMessage.builder((String) call.get("previousId"));
    }
  }

  @SuppressWarnings("unchecked")
  static Map<String, Object> map(Map<String, Object> call, String name) {
    return (Map<String, Object>) call.get(name);
  }

  static Callback counting(CountDownLatch open) {
    return new Callback() {
      @Override
      public void success(Message message) {
        open.countDown();
      }

      @Override
      public void failure(Message message, Throwable error) {
        error.printStackTrace();
        System.exit(1);
      }
    };
  }
}

// A program of somebody who uses @segment/analytics-node: only the host is not the default.
const { Analytics } = require("@segment/analytics-node");
const said = require(process.env.CALLS);

const analytics = new Analytics({ writeKey: process.env.WRITE_KEY, host: process.env.HOST });
analytics.on("error", (error) => {
  console.error("error", error);
  process.exitCode = 1;
});
for (const { type, timestamp, ...call } of said) {
  analytics[type]({ ...call, timestamp: timestamp && new Date(timestamp) });
}
analytics.closeAndFlush({ timeout: 10_000 });

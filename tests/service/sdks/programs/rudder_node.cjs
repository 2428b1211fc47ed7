// A program of somebody who uses @rudderstack/rudder-sdk-node (gzip by default): only the host is not the default.
const RudderAnalytics = require("@rudderstack/rudder-sdk-node");
const said = require(process.env.CALLS);

const analytics = new RudderAnalytics(process.env.WRITE_KEY, {
  dataPlaneUrl: process.env.HOST,
  errorHandler: (error) => {
    console.error("error", error);
    process.exitCode = 1;
  },
});
for (const { type, timestamp, ...call } of said) {
  analytics[type]({ ...call, originalTimestamp: timestamp && new Date(timestamp) });
}
analytics.flush();

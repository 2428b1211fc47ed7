// A program of somebody who uses analytics-node, the library before @segment/analytics-node: only the host is not the default.
const Analytics = require("analytics-node");
const said = require(process.env.CALLS);

const analytics = new Analytics(process.env.WRITE_KEY, {
  host: process.env.HOST,
  errorHandler: (error) => {
    console.error("error", error);
    process.exitCode = 1;
  },
});
for (const { type, timestamp, ...call } of said) {
  analytics[type]({ ...call, timestamp: timestamp && new Date(timestamp) });
}
analytics.flush();

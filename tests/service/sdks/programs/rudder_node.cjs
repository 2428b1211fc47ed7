// A program of somebody who uses @rudderstack/rudder-sdk-node (gzip by default): only the host is not the default.
const RudderAnalytics = require("@rudderstack/rudder-sdk-node");

const analytics = new RudderAnalytics(process.env.WRITE_KEY, {
  dataPlaneUrl: process.env.HOST,
  errorHandler: (error) => {
    console.error("error", error);
    process.exitCode = 1;
  },
});
const originalTimestamp = new Date("2026-11-20T07:00:00.123Z");
analytics.identify({ userId: "u1", traits: { plan: "pro" }, originalTimestamp });
analytics.track({ userId: "u1", event: "Order Completed", properties: { total: 12.5, name: "Café 😀" }, originalTimestamp });
analytics.page({ userId: "u1", category: "Docs", name: "Home", properties: { url: "https://x.test/" }, originalTimestamp });
analytics.screen({ userId: "u1", category: "App", name: "Main", properties: { tab: 2 }, originalTimestamp });
analytics.group({ userId: "u1", groupId: "g1", traits: { company: "Acme" }, originalTimestamp });
analytics.alias({ userId: "u1", previousId: "old", originalTimestamp });
analytics.flush();

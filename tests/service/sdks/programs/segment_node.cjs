// A program of somebody who uses @segment/analytics-node: only the host is not the default.
const { Analytics } = require("@segment/analytics-node");

const analytics = new Analytics({ writeKey: process.env.WRITE_KEY, host: process.env.HOST });
const timestamp = new Date("2026-11-20T07:00:00.123Z");
analytics.on("error", (error) => {
  console.error("error", error);
  process.exitCode = 1;
});
analytics.identify({ userId: "u1", traits: { plan: "pro" }, timestamp });
analytics.track({ userId: "u1", event: "Order Completed", properties: { total: 12.5, name: "Café 😀" }, timestamp });
analytics.page({ userId: "u1", category: "Docs", name: "Home", properties: { url: "https://x.test/" }, timestamp });
analytics.screen({ userId: "u1", category: "App", name: "Main", properties: { tab: 2 }, timestamp });
analytics.group({ userId: "u1", groupId: "g1", traits: { company: "Acme" }, timestamp });
analytics.alias({ userId: "u1", previousId: "old", timestamp });
analytics.closeAndFlush({ timeout: 10_000 });

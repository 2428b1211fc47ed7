// A receiver in Node.js, no packages: verifies Standard Webhooks signatures, drops repeats, answers 200.
// Run: SECRET=whsec_… PORT=9000 node standard_webhooks.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const key = Buffer.from(process.env.SECRET.replace(/^whsec_/, ""), "base64");
const toleranceSeconds = 300;
const remembered = 100_000;
const seen = new Set();

function authentic(headers, body) {
  const id = headers["webhook-id"] ?? "";
  const timestamp = headers["webhook-timestamp"] ?? "";
  // An old time means that somebody sends again what they have seen: Hookline gives every attempt its own.
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1000 - Number(timestamp)) > toleranceSeconds) return false;
  // The signature is over the bytes of the body: compute it before parsing, compare in constant time.
  const expected = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  // While the secret rotates there are two signatures; one that fits is enough.
  return (headers["webhook-signature"] ?? "").split(" ").some((each) => {
    const given = Buffer.from(each.startsWith("v1,") ? each.slice("v1,".length) : "", "base64");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  if (!authentic(request.headers, body)) {
    response.writeHead(401).end();
    return;
  }
  // After a crash Hookline may send an event again; its webhook-id stays the same.
  const id = request.headers["webhook-id"];
  if (!seen.has(id)) {
    seen.add(id);
    if (seen.size > remembered) seen.delete(seen.values().next().value);
    console.log(JSON.stringify(JSON.parse(body)));
  }
  response.writeHead(200).end();
}).listen(Number(process.env.PORT ?? 9000), "127.0.0.1");

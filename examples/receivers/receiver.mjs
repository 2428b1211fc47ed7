// A receiver in Node.js, no packages: verifies X-Signature, drops repeats, answers 200.
// Run: SECRET=s3cret PORT=9000 node receiver.mjs
import { createHmac, timingSafeEqual } from "node:crypto";
import { createServer } from "node:http";

const secret = process.env.SECRET;
const remembered = 100_000;
const seen = new Set();

function authentic(body, signatures) {
  // The signature is over the bytes of the body. JSON.stringify(JSON.parse(body)) gives the same bytes,
  // so a receiver behind a body parser may sign that instead.
  const expected = createHmac("sha1", secret).update(body).digest();
  return signatures.some((signature) => {
    const given = Buffer.from(signature ?? "", "hex");
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
}

createServer(async (request, response) => {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  // While the secret rotates, X-Signature is by the old one and X-Signature-Next by the new one: taking either lets
  // SECRET be changed at any moment of the overlap.
  if (!authentic(body, [request.headers["x-signature"], request.headers["x-signature-next"]])) {
    response.writeHead(401).end();
    return;
  }
  // After a crash Hookline may send an event again; its X-Message-Id stays the same.
  const id = request.headers["x-message-id"];
  if (!seen.has(id)) {
    seen.add(id);
    if (seen.size > remembered) seen.delete(seen.values().next().value);
    console.log(JSON.stringify(JSON.parse(body)));
  }
  response.writeHead(200).end();
}).listen(Number(process.env.PORT ?? 9000), "127.0.0.1");

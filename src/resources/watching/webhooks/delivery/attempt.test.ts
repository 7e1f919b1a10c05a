import { afterEach, describe, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { createServer, type TLSSocket } from "node:tls";
import { Webhook } from "standardwebhooks";
import { fakeClock, tempDir, until } from "../../../../../test/harness.ts";
import {
  addEndpoint,
  answerOf,
  openRig,
  type Rig,
  startTlsReceiver,
  TLS_FLAGS,
  TLS_SERVER,
} from "../../../../../test/webhooks_kit.ts";
import { mintSecret, verify } from "../../../../lib/webhooks/signature.ts";
import { DialError } from "../../../../platform/network/address.ts";
import { type Dial, guardedDial } from "../../../../platform/network/http_client.ts";
import { rotate } from "../rotation.ts";
import { openSecrets, sealSecrets } from "../sealing.ts";
import * as endpoints from "../service.ts";
import { type Attempt, attempt } from "./attempt.ts";

const never = new AbortController().signal;
const clock = fakeClock(Date.now());
const rigs: { rig: Rig; dir: string }[] = [];
afterEach(async () => {
  for (const { rig, dir } of rigs.splice(0))
    await rig.close().then(() => rmSync(dir, { recursive: true, force: true }));
});

function open(dial: Dial, url = "https://hooks.example/x") {
  const dir = tempDir();
  const rig = openRig({ dir, clock, dial });
  rigs.push({ rig, dir });
  const { id, secret } = addEndpoint(rig.ctx, { url });
  const request = (more: Partial<Attempt> = {}): Attempt => ({
    endpoint: endpoints.find(rig.ctx, id)!,
    eventId: "evt_01",
    body: Buffer.from('{"id":"evt_01"}'),
    warm: false,
    ...more,
  });
  return { ctx: rig.ctx, secret, request };
}

type DialRequest = Parameters<Dial>[1];
function recording() {
  const requests: DialRequest[] = [];
  const dial: Dial = async (_url, request) => {
    requests.push(request);
    return answerOf(200);
  };
  return { requests, dial };
}
const headersOf = ({ headers }: DialRequest) => new Headers(headers);

test("P16 one attempt has ten seconds, 64 KiB of answer, and a 2xx is enough by itself", async () => {
  const { requests, dial } = recording();
  const { ctx, request } = open(dial);
  await attempt(ctx, request(), never);
  expect(requests).toMatchObject([{ method: "POST", timeoutMs: 10_000, maxResponseBytes: 65_536, keepAlive: true }]);
  const { isEnough } = requests[0]!;
  expect([199, 200, 204, 299, 300, 410, 500].filter((status) => isEnough?.(status))).toEqual([200, 204, 299]);
});

test("during a rotation it is signed with both secrets, afterwards with the new one", async () => {
  const { requests, dial } = recording();
  const { ctx, secret: old, request } = open(dial);
  const { endpoint } = request();
  const fresh = mintSecret();
  const rotated = rotate(openSecrets(ctx, endpoint), fresh, { nowMs: clock.now(), graceMs: 60_000 });
  const changed = { ...endpoint, secrets: sealSecrets(ctx, endpoint.id, rotated) };
  const accepted = async (secret: string) => {
    await attempt(ctx, request({ endpoint: changed }), never);
    const nowSeconds = Math.floor(clock.now() / 1000);
    const delivered = { headers: headersOf(requests.at(-1)!), body: request().body! };
    return verify(delivered, { secrets: [secret], nowSeconds }).valid;
  };
  expect([await accepted(old), await accepted(fresh)]).toEqual([true, true]);
  clock.advance(60_001);
  expect([await accepted(old), await accepted(fresh)]).toEqual([false, true]);
});

describe("a failure", () => {
  test.each(["timeout", "address_refused", "unresolved", "connection", "tls"] as const)(
    "of kind %s is told as such",
    async (code) => {
      const { ctx, request } = open(() => Promise.reject(new DialError(code, "because")));
      const tried = await attempt(ctx, request(), never);
      expect(tried).toMatchObject({
        errorCode: code,
        errorMessage: "because",
        outcome: { answered: false, error: code },
      });
    },
  );

  test("that nobody expected is one all the same, without its words", async () => {
    const { ctx, request } = open(() => Promise.reject(new Error("hunter2")));
    expect(await attempt(ctx, request(), never)).toMatchObject({ errorCode: "internal", outcome: { answered: false } });
    const lost = await attempt(ctx, request({ body: undefined }), never);
    expect(lost.errorMessage).toBe("The server could not send the request; its log has the details");
  });
});

const LOCAL = { allow_private: false, allow: TLS_FLAGS["network.allow"], ca_file: TLS_FLAGS["network.ca_file"] };

/** Answers the first request of a connection and resets it at the second. */
async function startResetting() {
  let connections = 0;
  const key = await TLS_SERVER.key.text();
  const server = createServer({ key, cert: await TLS_SERVER.cert.text() }, (socket: TLSSocket) => {
    connections++;
    let requests = 0;
    socket.on("error", () => {});
    socket.on("data", () => {
      if (++requests === 1) socket.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
      else socket.destroy();
    });
  });
  server.listen(0, "127.0.0.1");
  const port = await until("the port", () => (server.address() as { port: number } | null)?.port);
  return { url: `https://127.0.0.1:${port}/`, connections: () => connections, stop: () => void server.close() };
}

test("a connection that was closed while idle is not the receiver's failure, a new one that is closed is", async () => {
  const resetting = await startResetting();
  const { ctx, request } = open(guardedDial(LOCAL), resetting.url);
  const codes = [];
  for (const warm of [false, true, false, false])
    codes.push((await attempt(ctx, request({ warm }), never)).responseCode);
  expect(codes).toEqual([200, 200, 200, null]);
  resetting.stop();
});

test("the reference library takes it, and refuses a changed byte, an old time, a wrong secret", async () => {
  const receiver = startTlsReceiver();
  try {
    const { ctx, secret, request } = open(guardedDial(LOCAL), `${receiver.url}/hook`);
    const sentAt = async (ms: number) => {
      clock.advance(ms - clock.now());
      await attempt(ctx, request(), never);
      const { headers, body } = receiver.got.at(-1)!;
      return { headers: headers.toJSON(), body };
    };
    const { headers, body } = await sentAt(Date.now()); // the library asks the real clock
    const library = new Webhook(secret);
    expect(library.verify(body, headers)).toEqual({ id: "evt_01" });
    expect(() => library.verify(body.replace("01", "02"), headers)).toThrow("No matching");
    expect(() => new Webhook(mintSecret()).verify(body, headers)).toThrow("No matching");
    const old = await sentAt(Date.now() - 301_000);
    expect(() => library.verify(old.body, old.headers)).toThrow("too old");
  } finally {
    await receiver.stop();
  }
});

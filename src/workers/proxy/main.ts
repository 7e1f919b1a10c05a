/** An HTTP proxy for the programs of one jail. It parses what they send, so it is a process of its own. */
import { chmodSync } from "node:fs";
import { createServer } from "node:net";
import { networkPolicy } from "../../platform/network/address.ts";
import { type Host, runHosted } from "../host.ts";
import { type FromProxy, ToProxy, type Traffic } from "../protocol_proxy.ts";
import { type Forwarding, serveConnection } from "./forward.ts";
import { giveUpUnixSockets } from "./seal.ts";

type ProxyHost = Host<ToProxy, FromProxy>;

const REPORT_MS = 1_000;
const MOST_HOSTS = 100; // refused ones that are reported
/** The user of the jail opens it. Only the server can reach the folder, so only its jail has the socket. */
const FOR_THE_JAIL = 0o666;

export const runProxy = () => runHosted<ToProxy, FromProxy>(ToProxy, serve);

async function serve(host: ProxyHost) {
  for await (const task of host.messages) {
    const { forwarding, traffic } = accountFor(task, host);
    const server = createServer({ allowHalfOpen: true }, (socket) => void serveConnection(socket, forwarding));
    await new Promise<void>((done, failed) => server.once("error", failed).listen(host.socketPath, done));
    chmodSync(host.socketPath, FOR_THE_JAIL);
    giveUpUnixSockets();
    host.send({ type: "listening" });
    await reporting(host, traffic);
    return;
  }
}

/** Reports the totals when they change, and at the end. */
async function reporting(host: ProxyHost, traffic: Traffic) {
  let reported = "";
  const report = () => {
    const totals = JSON.stringify(traffic);
    if (totals !== reported) host.send({ type: "traffic", ...traffic });
    reported = totals;
  };
  const timer = setInterval(report, REPORT_MS);
  await new Promise<void>((done) => {
    if (host.stopping.aborted) done();
    host.stopping.addEventListener("abort", () => done(), { once: true });
  });
  clearInterval(timer);
  report();
}

function accountFor(task: ToProxy, host: ProxyHost): { forwarding: Forwarding; traffic: Traffic } {
  const traffic: Traffic = { connections: 0, refused: 0, sent_bytes: 0, received_bytes: 0 };
  const refusedHosts = new Set<string>();
  const forwarding: Forwarding = {
    policy: networkPolicy(task.network),
    connectMs: task.connect_ms,
    count(direction, bytes) {
      traffic[`${direction}_bytes`] += bytes;
      return traffic.sent_bytes + traffic.received_bytes < task.max_bytes;
    },
    onConnected: () => void traffic.connections++,
    onRefused(name, reason, detail) {
      traffic.refused++;
      if (refusedHosts.has(name) || refusedHosts.size >= MOST_HOSTS) return;
      refusedHosts.add(name);
      host.send({ type: "refused", host: name, reason, ...(detail === undefined ? {} : { detail }) });
    },
  };
  return { forwarding, traffic };
}

/** The network of a custom job: a proxy of its own, whose traffic is counted and limited. */
import type { Ctx } from "../../../../context.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import { MIB } from "../../../../lib/units.ts";
import { write } from "../../../../platform/db/db.ts";
import { logRefusal } from "../../../../platform/network/dial_log.ts";
import { FromProxy, type ToProxy, type Traffic } from "../../../../workers/protocol_proxy.ts";
import type { JobLog } from "../logs/file.ts";
import { note } from "../state/notes.ts";
import type { JobRow } from "../table.ts";

export type JobNetwork = {
  /** Socket of the proxy; undefined without a network. */
  proxy: string | undefined;
  /** Ends all connections, and records the traffic. */
  close: () => Promise<void>;
};

const NO_NETWORK: JobNetwork = { proxy: undefined, close: async () => {} };

export const openNetwork = async (ctx: Ctx, job: JobRow, log: JobLog): Promise<JobNetwork> =>
  job.network === "guarded" ? await openProxy(ctx, job, log) : NO_NETWORK;

/** Resolves when the proxy accepts connections. */
async function openProxy(ctx: Ctx, job: JobRow, log: JobLog): Promise<JobNetwork> {
  const { network, custom_jobs, connectors } = ctx.config;
  const listening = Promise.withResolvers<void>();
  let traffic: Traffic | undefined;
  const worker = ctx.supervisor.spawn<FromProxy, ToProxy>({
    kind: "proxy",
    incoming: FromProxy,
    onMessage(message) {
      if (message.type === "listening") listening.resolve();
      if (message.type === "traffic") traffic = message;
      if (message.type !== "refused") return;
      const { host, reason, detail } = message;
      log.add("stderr", `No connection to ${host}: ${reason}`);
      logRefusal(ctx.log, host, { code: "address_refused", detail });
    },
    onExit({ kind, message }) {
      if (kind !== "stopped") log.add("stderr", `The network of the job ended: ${message}`);
      listening.reject(new Error(`The proxy of a job could not be started: ${message}`));
    },
  });
  listening.promise.catch(() => {}); // it is awaited below
  worker.send({
    type: "serve",
    network: { allow_private: network.allow_private, allow: [...network.allow] },
    max_bytes: custom_jobs.network_mib * MIB,
    connect_ms: connectors.connect_timeout_ms,
  });
  await listening.promise;
  return {
    proxy: worker.socketPath,
    async close() {
      await worker.stop("the command has ended");
      if (traffic) recordTraffic(ctx, job, traffic);
    },
  };
}

function recordTraffic(ctx: Ctx, job: JobRow, { connections, refused, sent_bytes, received_bytes }: Traffic) {
  const message = `Network: ${connections} connections, ${refused} refused, ${formatBytes(sent_bytes)} sent, ${formatBytes(received_bytes)} received`;
  const data = { connections, refused, sent_bytes, received_bytes };
  write(ctx.db, (tx) => note(tx, job, ctx.clock.now(), { level: "info", type: "network", message, data }));
}

/** Reads outside sources of rows in a separate process. It holds the credentials and ends with its one task. */
import { errorText } from "../../lib/error_text.ts";
import { type Credentials, faultOf, type SourceType } from "../../lib/source.ts";
import { DialError } from "../../platform/network/address.ts";
import { type Host, runHosted } from "../host.ts";
import { type FromConnector, ToConnector } from "../protocol.ts";
import { createDialer } from "./dialer.ts";
import { hiding } from "./hide.ts";
import { memoryRanOut } from "./memory.ts";
import { readInto } from "./rows/reading.ts";
import { validate } from "./rows/validating.ts";
import { type Connector, type Open, type Opening, SourceError } from "./types.ts";

type Task = ToConnector;
type ConnectorHost = Host<ToConnector, FromConnector>;

const SOURCES: Record<SourceType, () => Promise<{ open: Open }>> = {
  s3: () => import("./s3.ts"),
  gs: () => import("./gs.ts"),
  az: () => import("./az.ts"),
  hf: () => import("./hf.ts"),
  postgres: () => import("./postgres.ts"),
  mysql: () => import("./mysql.ts"),
  snowflake: () => import("./snowflake.ts"),
  bigquery: () => import("./bigquery.ts"),
};

const MAX_MESSAGE = 2000;
/** More than the largest rows need. Drivers buffer everything that a server sends until they can parse it. */
const MEMORY_BYTES = 2 * 2 ** 30;

export const runConnector = () => runHosted<ToConnector, FromConnector>(ToConnector, serve);

async function serve(host: ConnectorHost) {
  for await (const task of host.messages) {
    try {
      await Promise.race([perform(task, host), memoryRanOut(MEMORY_BYTES + 8 * task.row_bytes)]);
    } catch (error) {
      if (host.stopping.aborted) return;
      host.send(refusalOf(error, task.credentials));
    }
    return;
  }
}

async function perform(task: Task, host: ConnectorHost) {
  const received = { bytes: 0 };
  const connector = await openSource(task, (count) => {
    received.bytes += count;
  });
  if (task.type === "test") {
    await connector.test(host.stopping);
    return host.send({ type: "tested" });
  }
  if (task.type === "read") return host.send(await readInto(task, connector, host, received));
  host.send(await validate(task, connector, host.stopping));
}

export async function openSource(
  task: Omit<Task, "type">,
  onBytes: (count: number) => void = () => {},
): Promise<Connector> {
  const fault = faultOf(task.source);
  if (fault) throw new SourceError("invalid_source", fault.message, fault.param);
  const { open } = await SOURCES[task.source.source_type]();
  const opening: Opening = {
    source: task.source,
    credentials: task.credentials,
    dialer: createDialer(task.network, { connectMs: task.connect_ms, onBytes }),
    hubEndpoint: task.hub_endpoint,
    limits: { connectMs: task.connect_ms, statementMs: task.statement_ms, rowBytes: task.row_bytes },
  };
  return open(opening);
}

/** A driver's own message is passed on too, without any credential. */
function refusalOf(error: unknown, credentials: Credentials): FromConnector {
  const isSourceError = error instanceof SourceError;
  const said = isSourceError ? error.message : `The source failed: ${errorText(error)}`;
  const param = isSourceError ? error.param : null;
  const detail = isSourceError && error.cause instanceof DialError ? error.cause.detail : undefined;
  return {
    type: "refused",
    code: isSourceError ? error.code : "broken",
    message: hiding(credentials, MAX_MESSAGE)(said),
    param,
    ...(detail === undefined
      ? {}
      : { refused: { host: said.split(" ")[0]!.slice(0, 300), detail: detail.slice(0, 300) } }),
  };
}

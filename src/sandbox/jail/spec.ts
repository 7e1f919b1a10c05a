/** Encodes the spec that the helper reads from descriptor 3. src/native/jail/spec.c decodes it. */
import { pathOf } from "../files/foreign_dir.ts";
import type { JailSpec, Mount } from "./types.ts";

/** The user that the helper becomes if the server is root. */
export type JailOwner = { uid: number; gid: number };

const KINDS = {
  read_only: "r",
  writable: "w",
  tmpfs: "t",
  symlink: "l",
  file: "f",
  device: "g",
  devices: "d",
  proc: "p",
} as const satisfies Record<Mount["kind"], string>;

/** On the loopback device of the jail. */
const PROXY_PORT = 3128;
const PROXY_SOCKET = "/run/verk/proxy";
export const PROXY_URL = `http://127.0.0.1:${PROXY_PORT}`;

/** Jails begin at different processors, so that two of them do not share one while another is idle. */
let nextProcessor = 0;

const number64 = (value: number): Buffer => {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(Math.max(0, Math.ceil(value))));
  return bytes;
};

function counted(content: string): Buffer {
  const bytes = Buffer.from(content);
  const length = Buffer.alloc(4);
  length.writeUInt32LE(bytes.byteLength);
  return Buffer.concat([length, bytes]);
}

function record(tag: string, content: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(tag, 0, "latin1");
  head.writeUInt32LE(content.byteLength, 1);
  return Buffer.concat([head, content]);
}

const text = (tag: string, content: string) => record(tag, Buffer.from(content));
const number = (tag: string, value: number) => record(tag, number64(value));
const flag = (tag: string, value: boolean) => record(tag, Buffer.of(value ? 1 : 0));

function mount(entry: Mount): Buffer {
  const fields = (bytes: number, from: string, to: string) =>
    record("m", Buffer.concat([Buffer.from(KINDS[entry.kind]), number64(bytes), counted(from), counted(to)]));
  switch (entry.kind) {
    case "tmpfs":
      return fields(entry.bytes, "", entry.to);
    case "symlink":
      return fields(0, entry.target, entry.at);
    case "file":
      return fields(0, entry.text, entry.at);
    case "devices":
    case "proc":
      return fields(0, "", "/");
    default:
      return fields(0, typeof entry.from === "string" ? entry.from : pathOf(entry.from), entry.to);
  }
}

type Start = {
  /** Sets everything up, but runs no command: it checks whether this host can make a jail. */
  probe?: boolean;
  /** See share.ts. */
  share?: string | undefined;
};

function processors({ cpus }: JailSpec["limits"]): Buffer[] {
  if (cpus === undefined) return [];
  const first = nextProcessor;
  nextProcessor += cpus;
  return [number("N", cpus), number("K", first)];
}

const proxied = (proxy: string): Buffer[] => [
  mount({ kind: "read_only", from: proxy, to: PROXY_SOCKET }),
  text("R", PROXY_SOCKET),
  number("X", PROXY_PORT),
];

export function encodeSpec(spec: JailSpec, owner: JailOwner, { probe = false, share }: Start = {}): Buffer {
  const { limits } = spec;
  return Buffer.concat([
    Buffer.from("VJ1\n"),
    ...spec.argv.map((argument) => text("a", argument)),
    ...Object.entries(spec.env).map(([name, value]) => text("e", `${name}=${value}`)),
    text("c", spec.cwd),
    ...spec.mounts.map(mount),
    number("u", owner.uid),
    number("g", owner.gid),
    number("P", limits.processes),
    number("M", limits.memoryBytes),
    number("O", limits.openFiles),
    number("F", limits.fileBytes),
    number("C", limits.cpuSeconds),
    number("W", limits.wallMs),
    ...(limits.disk === undefined
      ? []
      : [text("D", limits.disk.at), number("B", limits.disk.bytes), number("E", limits.disk.entries)]),
    ...processors(limits),
    ...(spec.proxy === undefined ? [] : proxied(spec.proxy)),
    ...(share === undefined ? [] : [text("G", share)]),
    flag("n", spec.network === "host"),
    flag("s", spec.filter === "session"),
    flag("?", probe),
    record(".", Buffer.alloc(0)),
  ]);
}

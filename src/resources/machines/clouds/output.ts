/** Reads what the commands of a cloud print. Pure. */
import { z } from "zod";
import { checked, mustFit, OutsideError, outside, type Sent } from "../../../lib/json/outside.ts";
import { later } from "../../../lib/schema.ts";
import { HOST_KEY } from "../regions/schema.ts";

/** `user` and `hostKey` are null if the command left them out. */
const Address = later(() =>
  z.strictObject({
    user: z
      .string()
      .regex(/^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/, "expected a user name")
      .max(64)
      .nullable(),
    address: z
      .string()
      .max(253)
      .regex(/^[A-Za-z0-9][A-Za-z0-9.:-]{0,252}$/, "expected a host name or an IP address"),
    port: z.int().min(1).max(65_535),
    hostKey: z.string().max(2_100).regex(HOST_KEY, "expected the type and the base64 of a host key").nullable(),
  }),
);
export type Address = z.infer<typeof Address>;

const MOST_MACHINES = 10_000;

const UP = outside("the output of the command `up`", Address);
const LIST = outside("the output of the command `list`", z.array(z.string().max(200)).max(MOST_MACHINES));

const linesOf = (sent: Sent) =>
  new TextDecoder()
    .decode(sent.body)
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

const SHAPE = /^(?:([^@\s]+)@)?(\[[0-9A-Fa-f:.]+\]|[^\s:[\]@]+)(?::(\d{1,5}))?(?:\s+(\S+ \S+))?$/;

/** The last line: `[USER@]ADDRESS[:PORT] [HOST KEY]`. Earlier lines are for the log of the operator. */
export function readAddress(sent: Sent): Address {
  mustFit(UP, sent);
  const line = linesOf(sent).at(-1) ?? "";
  const parts = SHAPE.exec(line);
  if (!parts)
    throw new OutsideError(
      `${UP.source} ends with ${JSON.stringify(line.slice(0, 100))}: expected USER@ADDRESS or USER@ADDRESS:PORT`,
    );
  const [, user = null, host = "", port = "22", hostKey = null] = parts;
  return checked(UP, { user, address: host.replace(/^\[|\]$/g, ""), port: Number(port), hostKey });
}

/** The words of all lines: names of machines, others than ours too. */
export function readNames(sent: Sent): string[] {
  mustFit(LIST, sent);
  return checked(
    LIST,
    linesOf(sent).flatMap((line) => line.split(/\s+/)),
  );
}

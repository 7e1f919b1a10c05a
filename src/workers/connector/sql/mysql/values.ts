import { embeddedJson, numberJson } from "../lines.ts";

/** The server's description of a column. `extendedFormat` comes from MariaDB, which sends JSON as text. */
export type Column = { name: string; columnType: number; characterSet: number; extendedFormat?: string };

const NUMBERS = [0, 1, 2, 3, 4, 5, 8, 9, 13, 246]; // DECIMAL, TINY, SHORT, LONG, FLOAT, DOUBLE, LONGLONG, INT24, YEAR, NEWDECIMAL
const TIMESTAMP = 7;
const DATE = 10;
const DATETIME = 12;
const BIT = 16;
const JSON_TYPE = 245;
const BYTES = [242, 249, 250, 251, 252, 253, 254, 255]; // VECTOR, the BLOBs, VAR_STRING, STRING, GEOMETRY
const BINARY = 63;

/** The session's time zone is UTC. */
export function toJson(column: Column): (bytes: Buffer) => string {
  const { columnType: type, characterSet } = column;
  if (NUMBERS.includes(type)) return (bytes) => numberJson(bytes.toString("latin1"));
  if (type === TIMESTAMP || type === DATETIME || type === DATE)
    return (bytes) => moment(bytes.toString("latin1"), type === TIMESTAMP ? "Z" : "");
  if (type === BIT) return (bytes) => BigInt(`0x0${bytes.toString("hex")}`).toString();
  if (type === JSON_TYPE || column.extendedFormat === "json") return (bytes) => embeddedJson(bytes.toString("utf8"));
  if (BYTES.includes(type) && characterSet === BINARY) return (bytes) => `"${bytes.toString("base64")}"`;
  return (bytes) => JSON.stringify(bytes.toString("utf8"));
}

/** MySQL writes a missing date as zeros. */
function moment(text: string, zone: string): string {
  if (text.startsWith("0000-00-00")) return "null";
  const [date, time] = text.split(" ");
  return time === undefined ? `"${date}"` : `"${date}T${time}${zone}"`;
}

/** A network namespace of its own, joined to this machine by a cable that can be cut. Root only. */
import { runToEnd } from "./process.ts";

export type Cable = Disposable & {
  /** The address of the far end. */
  address: string;
  /** Runs a command in the namespace. */
  prefix: readonly string[];
  cut: () => void;
  join: () => void;
};

export function layCable(): Cable {
  const number = process.pid % 250;
  const name = `verk${process.pid}`;
  const [near, far] = [`vn${process.pid}`, `vf${process.pid}`];
  const ip = (...args: string[]) => runToEnd(["ip", ...args]);
  ip("netns", "add", name);
  ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name);
  ip("addr", "add", `10.251.${number}.1/30`, "dev", near);
  ip("link", "set", near, "up");
  ip("-n", name, "addr", "add", `10.251.${number}.2/30`, "dev", far);
  ip("-n", name, "link", "set", far, "up");
  ip("-n", name, "link", "set", "lo", "up");
  return {
    address: `10.251.${number}.2`,
    prefix: ["ip", "netns", "exec", name],
    cut: () => ip("link", "set", near, "down"),
    join: () => ip("link", "set", near, "up"),
    [Symbol.dispose]: () => ip("netns", "del", name),
  };
}

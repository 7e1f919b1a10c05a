import { afterEach, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { DialError, judgeUrl, type Lookup, networkPolicy, resolveChecked } from "../../src/platform/network/address.ts";
import { guardedDial } from "../../src/platform/network/http_client.ts";
import { type Listener, listen, NO_CONTENT, TLS } from "./ssrf_listener.ts";

const network = { allow_private: false, allow: [] as string[], ca_file: join(TLS, "ca.pem") };
const listed = { ...network, allow: ["127.0.0.1"] };

const servers: Listener[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) server.stop();
});
const open = async (options: Parameters<typeof listen>[1] = {}): Promise<Listener> => {
  const seen = await listen((socket) => socket.end(NO_CONTENT), options);
  servers.push(seen);
  return seen;
};
const answering = (...answers: string[][]): Lookup & { calls: number } => {
  const lookup = async () => {
    lookup.calls++;
    return (answers[lookup.calls - 1] ?? answers.at(-1)!).map((address) => ({ address }));
  };
  lookup.calls = 0;
  return lookup;
};
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "answered",
    (error) => (error instanceof DialError ? error.code : String(error)),
  );
const request = { timeoutMs: 60_000, method: "POST", body: "{}" };

describe("names that change", () => {
  test("the server connects to the checked address, with the name in SNI and Host, under a private authority", async () => {
    const seen = await open();
    const decoy = await open({ host: "127.0.0.2", port: seen.port });
    const lookup = answering(["127.0.0.1"], ["127.0.0.2"]);
    const answer = await guardedDial(listed)(`https://hooks.example.:${seen.port}/x`, { ...request, lookup });
    expect(answer).toMatchObject({ status: 204, address: "127.0.0.1" });
    expect(lookup.calls).toBe(1);
    expect(seen.names).toEqual(["hooks.example"]);
    expect(seen.text.toLowerCase()).toContain(`\r\nhost: hooks.example:${seen.port}\r\n`);
    expect(decoy.connections).toBe(0);
  });

  test("a name that turns inside between two attempts reaches no host the second time", async () => {
    const seen = await open();
    const inside = await open({ host: "127.0.0.2", port: seen.port });
    const lookup = answering(["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "127.0.0.2"], ["127.0.0.2", "127.0.0.1"]);
    const attempt = () => codeOf(guardedDial(listed)(`https://hooks.example:${seen.port}/`, { ...request, lookup }));
    expect(await attempt()).toBe("answered");
    for (let i = 0; i < 3; i++) expect(await attempt()).toBe("address_refused");
    expect([seen.connections, inside.connections]).toEqual([1, 0]);
  });

  test("a host that the operator has not listed gets no packet, by literal, name or carrier", async () => {
    const seen = await open({ plain: true });
    const dial = guardedDial({ ...network, allow_private: true });
    for (const host of ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]", "[64:ff9b::127.0.0.1]", "localhost", "0"])
      expect(await codeOf(dial(`http://${host}:${seen.port}/`, { ...request, allowHttp: true }))).toBe(
        "address_refused",
      );
    const behind = dial(`http://a.example:${seen.port}/`, {
      ...request,
      allowHttp: true,
      lookup: answering(["127.0.0.1"]),
    });
    expect(await codeOf(behind)).toBe("address_refused");
    expect(seen.connections).toBe(0);
  });
});

describe("the operator's settings", () => {
  const outcome = async (settings: { allow_private: boolean; allow: string[] }, address: string) => {
    const policy = networkPolicy(settings);
    const host = address.includes(":") ? `[${address}]` : address;
    const literal = judgeUrl(`https://${host}/`, policy).allowed ? "open" : "closed";
    const named = await codeOf(resolveChecked("a.example", policy, answering([address])));
    expect(named).toBe(literal === "open" ? "answered" : "address_refused"); // one rule for both
    return literal;
  };
  const PRIVATE = ["10.1.2.3", "100.64.0.1", "172.16.5.5", "192.168.1.1", "fd00::1"];
  const CLOSED = [
    "127.0.0.1",
    "169.254.169.254",
    "0.0.0.0",
    "224.0.0.1",
    "::1",
    "fe80::1",
    "ff02::1",
    "100.100.100.200",
  ];

  // biome-ignore format: a table should look like one
  test.each([
    ["nothing opens private ranges by itself", false, [],                               [], [...PRIVATE, ...CLOSED]],
    ["allow_private opens them and no more",   true,  [],                               PRIVATE, CLOSED],
    ["a range opens what lies in it",          false, ["10.1.0.0/16", "fd00::/64"],     ["10.1.255.1", "fd00::9"], ["10.2.0.1", "fd00:0:0:1::1", "192.168.1.1"]],
    ["a range of loopback opens loopback",     false, ["127.0.0.0/8", "::1"],           ["127.9.9.9", "::1", "::ffff:127.0.0.1"], ["10.1.2.3", "::2", "64:ff9b::127.0.0.1"]],
    ["one address opens itself",               true,  ["169.254.169.254"],              ["169.254.169.254", "10.1.2.3"], ["169.254.169.253", "169.254.170.2"]],
    ["a range around metadata leaves it shut", false, ["169.254.0.0/16", "100.64.0.0/10"], ["169.254.1.1", "100.64.0.1"], ["169.254.169.254", "100.100.100.200"]],
    ["a name opens no address",                false, ["a.lan", "localhost"],           [], [...PRIVATE, ...CLOSED]],
  ] as const)("%s", async (_what, allow_private, allow, opened, closed) => {
    for (const address of opened) expect([address, await outcome({ allow_private, allow: [...allow] }, address)]).toEqual([address, "open"]);
    for (const address of closed) expect([address, await outcome({ allow_private, allow: [...allow] }, address)]).toEqual([address, "closed"]);
  });

  test("a listed name leads to this machine, and only by that name", async () => {
    const seen = await open();
    const dial = guardedDial({ ...network, allow: ["hooks.example"] });
    const call = (host: string) =>
      codeOf(dial(`https://${host}:${seen.port}/`, { ...request, lookup: answering(["127.0.0.1"]) }));
    expect(await call("hooks.example")).toBe("answered");
    expect(await call("HOOKS.example.")).toBe("answered");
    for (const host of ["a.hooks.example", "hooks.example.net", "127.0.0.1"])
      expect(await call(host)).toBe("address_refused");
    expect(seen.connections).toBe(2);
  });

  test("a private authority is trusted only where it is configured, and only for the name it signed", async () => {
    const seen = await open();
    const call = (ca_file: string, host: string) =>
      codeOf(
        guardedDial({ ...listed, ca_file })(`https://${host}:${seen.port}/`, {
          ...request,
          lookup: answering(["127.0.0.1"]),
        }),
      );
    expect(await call(network.ca_file, "hooks.example")).toBe("answered");
    expect(await call(network.ca_file, "127.0.0.1")).toBe("answered");
    expect(await call(network.ca_file, "other.example")).toBe("tls");
    expect(await call("", "hooks.example")).toBe("tls");
    expect(seen.text.match(/POST /g)).toHaveLength(2); // a request is not sent before the certificate is good
    expect(() => guardedDial({ ...network, ca_file: join(TLS, "none.pem") })).toThrow("network.ca_file: cannot read");
    expect(() => guardedDial({ ...network, ca_file: join(TLS, "server.key") })).toThrow("no PEM certificate");
  });
});

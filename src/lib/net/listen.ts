export type Listen = { hostname: string; port: number };

/** `host:port`, with an IPv6 host in brackets. Port 0 asks the system for a free one. Undefined when malformed. */
export function parseListen(text: string): Listen | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/\s]+)):(\d{1,5})$/.exec(text);
  const hostname = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (hostname === undefined || port > 65535) return undefined;
  if (match?.[1] !== undefined && !hostname.includes(":")) return undefined;
  return { hostname, port };
}

export const formatListen = ({ hostname, port }: Listen) =>
  hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;

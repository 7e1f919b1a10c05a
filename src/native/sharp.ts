import { prepare } from "./bundle/addon.ts";

/** Image decoding. Only in a child process: a hostile image must not take the server down. */
export async function loadSharp(dataDir: string) {
  prepare("sharp", dataDir);
  const { default: sharp } = await import("sharp");
  return sharp;
}

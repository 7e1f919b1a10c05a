import { prepare } from "./bundle/addon.ts";

/** Loads the image decoder. Only for child processes: a hostile image must not crash the server. */
export async function loadSharp(dataDir: string) {
  prepare("sharp", dataDir);
  const { default: sharp } = await import("sharp");
  return sharp;
}

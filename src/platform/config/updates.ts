import { z } from "zod";
import { readPublicKey } from "../updates/minisign/keys.ts";
import { section, setting } from "./section.ts";

export const updates = section("Upgrades from signed bundles (docs/upgrade.md).", {
  trusted_keys: setting(
    [],
    "Public keys (minisign) whose bundles `verk upgrade` takes, beside the one inside the executable.",
    () => z.array(z.string().refine(isKey, "expected a public key of minisign: the line that begins with RW")),
  ),
});

function isKey(text: string): boolean {
  try {
    readPublicKey(text);
    return true;
  } catch {
    return false;
  }
}

/**
 * The keys whose bundles this machine installs: the one inside the executable, and those of the configuration. Not from the data
 * directory: the user of the service can write there, and an upgrade runs as root.
 */

import { RELEASE_KEY } from "../../lib/version.ts";
import type { Config } from "../config/config.ts";
import { type PublicKey, readPublicKey } from "./minisign/keys.ts";

export const trustedKeys = ({ updates }: Pick<Config, "updates">, built = RELEASE_KEY): PublicKey[] =>
  [...(built === "" ? [] : [built]), ...updates.trusted_keys].map(readPublicKey);

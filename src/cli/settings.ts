import { type Config, configFile, loadConfig } from "../platform/config/config.ts";
import { becomeOwnerOf } from "../platform/workers/owner.ts";

type Options = { config?: string | undefined; data?: string | undefined; listen?: string | undefined };

/**
 * The effective configuration of a command, with its flags. As a side effect, root switches to the owner of the data
 * directory.
 */
export function settingsOf({ config, data, listen }: Options): Config {
  const settings = loadConfig({ file: configFile(config), flags: { data_dir: data, "http.listen": listen } });
  becomeOwnerOf(settings.data_dir);
  return settings;
}

import { type Config, configFile, loadConfig } from "../platform/config/config.ts";

type Options = { config?: string | undefined; data?: string | undefined; listen?: string | undefined };

/** The effective configuration of a command, with its flags. */
export const settingsOf = ({ config, data, listen }: Options): Config =>
  loadConfig({ file: configFile(config), flags: { data_dir: data, "http.listen": listen } });

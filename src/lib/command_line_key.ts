/** Name of the key that a command makes for itself beside a running server. */
export const COMMAND_LINE_KEY = "command line";

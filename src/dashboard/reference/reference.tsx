import { render } from "preact";
import { errorText } from "../../lib/error_text.ts";
import { applyTheme, theme } from "../shell/theme.ts";
import type { Contract } from "./contract.ts";
import { Failed, Reference } from "./page.tsx";

applyTheme(theme.value);
const root = document.getElementById("app");

async function load(): Promise<Contract> {
  const response = await fetch("/openapi.json");
  if (!response.ok) throw new Error(`The server answered ${response.status}.`);
  return (await response.json()) as Contract;
}

if (root)
  load()
    .then((contract) => render(<Reference contract={contract} />, root))
    .catch((error: unknown) => render(<Failed message={errorText(error)} />, root));

/** License texts as `verk licenses` and the file of a release show them. */
import type { Licensed, Licenses } from "../licenses.ts";

const LINE = "=".repeat(80);

/** `zod 4.6.7 (MIT)`, with its container and its note below it. */
function titleOf({ name, version, license, inside, note }: Licensed): string {
  const title = [name, ...(version === null ? [] : [version]), `(${license})`].join(" ");
  const place = inside === null ? "" : `, inside ${inside}`;
  return `${title}${place}${note === null ? "" : `\n  ${note}`}`;
}

/** Every text once, below the components that it belongs to. */
export function allTexts({ components, texts }: Licenses): string {
  const sections = texts.map((text, at) => {
    const titles = components.filter((each) => each.texts.includes(at)).map(titleOf);
    return `${LINE}\n${titles.join("\n")}\n${LINE}\n\n${text}`;
  });
  return sections.join("\n\n");
}

/** One component with all its texts. */
export const textsOf = (component: Licensed, { texts }: Licenses): string =>
  [`${LINE}\n${titleOf(component)}\n${LINE}`, ...component.texts.map((at) => texts[at] ?? "")].join("\n\n");

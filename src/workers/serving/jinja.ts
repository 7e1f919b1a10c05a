/**
 * A chat template comes with a model file that anyone may have made. It runs with a budget of steps, processor time, and
 * the size of any text or list. Not covered: one built-in function that is slow by itself on large values (`replace`, `sort`).
 * The server notices a silent worker.
 */
import { Environment, type Interpreter, Template } from "@huggingface/jinja";
import { PythonInterpreter, type Value } from "./jinja_python.ts";

const MAX_STEPS = 5_000_000;
const MAX_MS = 2_000;
const MAX_TEXT = 32 * 1024 * 1024;
const MAX_LIST = 100_000;

/** The template rejected the messages. The message is the template's own. */
export class TemplateRefusal extends Error {}
/** The template took too long or produced too much. */
export class TemplateOverrun extends Error {}

const processorMs = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

class BoundedInterpreter extends PythonInterpreter {
  private steps = 0;
  private readonly begun = processorMs();
  /** The least time on the clock at which the budget can be spent. A busy machine takes longer. */
  private soonest = performance.now() + MAX_MS;

  override evaluate(...[statement, environment]: Parameters<Interpreter["evaluate"]>): Value {
    this.steps++;
    const isDue = (this.steps & 255) === 0 || statement?.type === "For"; // an empty loop has no steps inside
    if (this.steps > MAX_STEPS || (isDue && this.isSpent()))
      throw new TemplateOverrun("The model's chat template takes too long. Use /completions instead");
    const result = super.evaluate(statement, environment);
    const value: unknown = result.value;
    if ((typeof value === "string" && value.length > MAX_TEXT) || (Array.isArray(value) && value.length > MAX_LIST))
      throw new TemplateOverrun("The model's chat template produces too much text. Use /completions instead");
    return result;
  }

  private isSpent(): boolean {
    const now = performance.now();
    if (now < this.soonest) return false;
    const left = MAX_MS - (processorMs() - this.begun);
    this.soonest = now + left;
    return left <= 0;
  }
}

function range(start: number, stop?: number, step = 1): number[] {
  const [from, to] = stop === undefined ? [0, start] : [start, stop];
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (!(count <= MAX_LIST))
    throw new TemplateOverrun("The model's chat template makes too long a list. Use /completions instead");
  return Array.from({ length: count }, (_, i) => from + i * step);
}

const pad = (n: number) => String(n).padStart(2, "0");
const named = (date: Date, options: Intl.DateTimeFormatOptions) => date.toLocaleDateString("en-US", options);

function strftime(format: string): string {
  const now = new Date();
  const parts: Record<string, () => string> = {
    Y: () => String(now.getFullYear()),
    m: () => pad(now.getMonth() + 1),
    d: () => pad(now.getDate()),
    b: () => named(now, { month: "short" }),
    B: () => named(now, { month: "long" }),
    a: () => named(now, { weekday: "short" }),
    A: () => named(now, { weekday: "long" }),
    H: () => pad(now.getHours()),
    M: () => pad(now.getMinutes()),
    S: () => pad(now.getSeconds()),
    "%": () => "%",
  };
  return String(format).replace(/%([a-zA-Z%])/g, (whole, letter: string) => parts[letter]?.() ?? whole);
}

const GLOBALS = {
  true: true,
  True: true,
  false: false,
  False: false,
  none: null,
  None: null,
  range,
  strftime_now: strftime,
  raise_exception: (message: unknown) => {
    throw new TemplateRefusal(String(message));
  },
};

export type Render = (variables: Record<string, unknown>) => string;

/** Throws when the template does not parse. */
export function compileTemplate(source: string): Render {
  const { parsed } = new Template(source);
  return (variables) => {
    const environment = new Environment();
    for (const [name, value] of Object.entries({ ...variables, ...GLOBALS })) // a name can be set once
      if (value !== undefined) environment.set(name, value);
    try {
      return String(new BoundedInterpreter(environment).run(parsed).value);
    } catch (cause) {
      if (!(cause instanceof RangeError)) throw cause;
      throw new TemplateOverrun("The model's chat template calls itself endlessly. Use /completions instead", {
        cause,
      });
    }
  };
}

/** Browsers by the word of their user agent. Most also name Chrome or Safari, so the order counts. */
const BROWSERS = [
  ["Edge", /Edg(?:e|A|iOS)?\/(\d+)/],
  ["Opera", /OPR\/(\d+)/],
  ["Samsung Internet", /SamsungBrowser\/(\d+)/],
  ["Firefox", /(?:Firefox|FxiOS)\/(\d+)/],
  ["Chrome", /(?:HeadlessChrome|Chrome|CriOS)\/(\d+)/],
  ["Safari", /Version\/(\d+)[\d.]* (?:Mobile\/\w+ )?Safari/],
] as const;
const SYSTEMS = [
  ["Android", /Android/],
  ["iPhone", /iPhone/],
  ["iPad", /iPad/],
  ["Windows", /Windows/],
  ["macOS", /Mac OS X/],
  ["ChromeOS", /CrOS/],
  ["Linux", /Linux/],
] as const;
const LONGEST = 60;

/** "Firefox 140 on Linux". A program that is no browser keeps its own name. */
export function browserOf(agent: string | null): string {
  if (agent === null || agent === "") return "Unknown browser";
  const browser = BROWSERS.find(([, pattern]) => pattern.test(agent));
  if (!browser) return agent.length > LONGEST ? `${agent.slice(0, LONGEST - 1)}…` : agent;
  const [name, pattern] = browser;
  const system = SYSTEMS.find(([, each]) => each.test(agent))?.[0];
  return `${name} ${pattern.exec(agent)?.[1]}${system ? ` on ${system}` : ""}`;
}

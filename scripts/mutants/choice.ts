/**
 * The mutants of a source text: small changes that a test should notice. Texts are left alone: strings, patterns, errors,
 * lines of the log, descriptions. So are types, tables `as const`, and numbers that are times or sizes: one more
 * millisecond is no behaviour.
 */
import { type Node, type SourceFile, SyntaxKind } from "typescript/unstable/ast";
import * as is from "typescript/unstable/ast/is";

/** `at`: the position of `from` in the text. */
export type Change = { at: number; line: number; from: string; to: string };
export type Mutant = Change & { file: string };

const OPERATORS: Readonly<Record<string, string>> = {
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "&&": "||",
  "||": "&&",
  "===": "!==",
  "!==": "===",
  "+": "-",
  "-": "+",
  "*": "/",
  "/": "*",
  "%": "*",
  "+=": "-=",
  "-=": "+=",
};
const EQUALITIES = ["===", "!=="];
const COMPARISONS = [...EQUALITIES, "<", "<=", ">", ">=", "&&", "||"];
/** Above it, one more is hardly behaviour. */
const LARGEST_NUMBER = 999;

const UNIT =
  /(?:_ms|_bytes|_seconds|_mib|[a-z](?:Ms|Bytes|Seconds))$|^(?:ms|bytes|seconds)$|_(?:MS|BYTES|SECONDS|MIB)$/;
const TEXT = /^(?:message|reason|doc|summary|description|detail|title|hint|examples)$/;
const QUIET_CALL = /(?:^|\.)(?:log|console)\.\w+$|^(?:note|failpoint)$|\.unref$/;
const LIST_CALL = /\.(?:map|filter|flatMap|sort|toSorted|all)\([\s\S]*\)$/;

export const isProduct = (file: string) =>
  /^src\/.*\.ts$/.test(file) && !/^src\/dashboard\/|\.test\.ts$|\.d\.ts$|^src\/platform\/db\/migrations\//.test(file);

export function applied(text: string, change: Change): string {
  const { at, from, to } = change;
  if (!isAt(text, change)) throw new Error(`the text at ${at} is not ${JSON.stringify(from)}`);
  return text.slice(0, at) + to + text.slice(at + from.length);
}

const isAt = (text: string, { at, from }: Change) => text.slice(at, at + from.length) === from;

const MOST_LINES_MOVED = 40;

/** The mutant where it is in a text that may have changed since it was drawn: at the nearest line with the same change. */
export async function relocated(
  mutant: Mutant,
  text: string,
  changes: () => Promise<Change[]>,
): Promise<Mutant | null> {
  if (isAt(text, mutant)) return mutant;
  const distance = ({ line }: Change) => Math.abs(line - mutant.line);
  const isAlike = (change: Change) =>
    change.from === mutant.from && change.to === mutant.to && distance(change) <= MOST_LINES_MOVED;
  const alike = (await changes()).filter(isAlike);
  const nearest = alike.sort((a, b) => distance(a) - distance(b))[0];
  return nearest ? { ...mutant, ...nearest } : null;
}

/** The same mutants in the same order for the same seed. A change of one file does not draw the others anew. */
export function drawn<T extends Change & { file?: string }>(mutants: readonly T[], seed: number): T[] {
  const lot = ({ file, at, from, to }: T) => Bun.hash.wyhash(`${seed} ${file} ${at} ${from} ${to}`);
  return mutants
    .map((mutant) => ({ mutant, lot: lot(mutant) }))
    .sort((a, b) => (a.lot < b.lot ? -1 : 1))
    .map(({ mutant }) => mutant);
}

export function changesOf(source: SourceFile): Change[] {
  const { text } = source;
  const changes: Change[] = [];
  const textOf = (node: Node) => text.slice(node.getStart(source), node.end);
  const declared = (type: Node | undefined) => (type ? textOf(type) : "");
  const change = (node: Node, to: string) => {
    const at = node.getStart(source);
    changes.push({ at, line: text.slice(0, at).split("\n").length, from: text.slice(at, node.end), to });
  };

  /** `returns`: the declared type of the values that the function around returns. */
  function visit(node: Node, returns: string) {
    if (isLeftAlone(node, textOf)) return;
    mutate(node, returns);
    if (is.isThrowStatement(node)) return; // an error sentence
    const inner = isFunction(node) ? declared(node.type) : returns;
    const name = is.isPropertyAssignment(node) ? node.name : undefined;
    node.forEachChild((child) => {
      if (child !== name) visit(child, inner);
    });
  }

  function mutate(node: Node, returns: string) {
    if (is.isBinaryExpression(node)) mutateOperator(node.operatorToken, [node.left, node.right], node);
    else if (is.isIfStatement(node)) {
      negate(node.expression);
      if (!node.elseStatement && isExit(node.thenStatement)) change(node, ";");
    } else if (is.isConditionalExpression(node)) negate(node.condition);
    else if (is.isPrefixUnaryExpression(node) && node.operator === SyntaxKind.ExclamationToken) {
      if (!textOf(node.operand).startsWith("!")) change(node, textOf(node.operand));
    } else if (is.isExpressionStatement(node)) mutateStatement(node, node.expression);
    else if (is.isReturnStatement(node)) replaceValue(node.expression, returns);
    else if (is.isArrowFunction(node) && !is.isBlock(node.body)) replaceValue(node.body, declared(node.type));
    else if (is.isNumericLiteral(node)) mutateNumber(node);
    else if (is.isCallExpression(node) && isOptional(node)) change(node, "undefined");
  }

  function mutateOperator(token: Node, sides: readonly [Node, Node], whole: Node) {
    const operator = textOf(token);
    const to = OPERATORS[operator];
    if (operator === "??") change(whole, textOf(sides[1]));
    else if (to !== undefined && !(operator === "+" && sides.some(isText))) change(token, to);
  }

  function negate(condition: Node) {
    const isSimple =
      is.isPrefixUnaryExpression(condition) ||
      (is.isBinaryExpression(condition) && EQUALITIES.includes(textOf(condition.operatorToken)));
    if (!isSimple) change(condition, `!(${textOf(condition)})`); // a simple one has the same mutant by its operator
  }

  function mutateStatement(statement: Node, expression: Node) {
    if (is.isStringLiteral(expression) || isLeftAlone(withoutWait(expression), textOf)) return;
    if (!/^super\b/.test(textOf(expression))) change(statement, ";");
  }

  function replaceValue(value: Node | undefined, returns: string) {
    if (value === undefined) return;
    const given = textOf(value);
    for (const to of valuesFor(value, given, returns)) if (to !== given) change(value, to);
  }

  function valuesFor(value: Node, given: string, returns: string): string[] {
    const type = /^Promise<([\s\S]*)>$/.exec(returns)?.[1] ?? returns;
    const isComparison = is.isBinaryExpression(value) && COMPARISONS.includes(textOf(value.operatorToken));
    const isNegation = is.isPrefixUnaryExpression(value) && value.operator === SyntaxKind.ExclamationToken;
    if (type === "boolean" || isComparison || isNegation || given === "true" || given === "false")
      return ["true", "false"];
    if (type === "number") return ["0", "1"];
    const isList = is.isArrayLiteralExpression(value) || type.endsWith("[]") || LIST_CALL.test(given);
    return isList ? ["[]"] : [];
  }

  function mutateNumber(literal: Node) {
    const value = Number(textOf(literal).replaceAll("_", ""));
    if (Number.isInteger(value) && value <= LARGEST_NUMBER) change(literal, String(value + 1));
  }

  visit(source, "");
  return changes;
}

const isFunction = (node: Node) =>
  is.isFunctionDeclaration(node) ||
  is.isFunctionExpression(node) ||
  is.isArrowFunction(node) ||
  is.isMethodDeclaration(node) ||
  is.isGetAccessorDeclaration(node);

function isLeftAlone(node: Node, textOf: (node: Node) => string): boolean {
  if (node.kind >= SyntaxKind.FirstTypeNode && node.kind <= SyntaxKind.LastTypeNode) return true;
  if (is.isInterfaceDeclaration(node) || is.isTypeAliasDeclaration(node) || is.isEnumDeclaration(node)) return true;
  if (is.isImportDeclaration(node) || is.isExportDeclaration(node)) return true;
  if (is.isAsExpression(node)) return textOf(node.type) === "const";
  if (is.isNewExpression(node)) return textOf(node.expression).endsWith("Error");
  if (is.isCallExpression(node)) return QUIET_CALL.test(textOf(node.expression));
  if (is.isVariableDeclaration(node)) return UNIT.test(textOf(node.name));
  return is.isPropertyAssignment(node) && (TEXT.test(textOf(node.name)) || UNIT.test(textOf(node.name)));
}

/** `await` and `void` before a call. */
const withoutWait = (node: Node): Node =>
  is.isAwaitExpression(node) || is.isVoidExpression(node) ? withoutWait(node.expression) : node;

const isText = (node: Node) =>
  is.isStringLiteral(node) || is.isTemplateExpression(node) || is.isNoSubstitutionTemplateLiteral(node);

const isOptional = (node: Node): boolean =>
  is.isCallExpression(node) &&
  (node.questionDotToken !== undefined ||
    (is.isPropertyAccessExpression(node.expression) && node.expression.questionDotToken !== undefined));

/** A statement that leaves the function or the turn of a loop. */
function isExit(node: Node): boolean {
  if (is.isBlock(node)) return node.statements.length === 1 && node.statements.every(isExit);
  return is.isReturnStatement(node) || is.isThrowStatement(node) || is.isContinueStatement(node);
}

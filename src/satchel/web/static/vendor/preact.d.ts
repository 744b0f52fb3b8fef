export function h(type: unknown, properties: object | null, ...children: unknown[]): unknown;
export function render(content: unknown, parent: Element): void;
export const Fragment: unknown;

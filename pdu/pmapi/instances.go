package pmapi

import (
	"context"
	"fmt"

	"github.com/gopcp/pmcd/pdu"
)

// Instances returns all instances of an instance domain, whatever the profile
// (pmGetInDom(3)). They are not cached: they can change at any time.
func (c *Client) Instances(ctx context.Context, indom pdu.InDom) ([]pdu.Inst, error) {
	var reply pdu.Instance
	err := c.call(ctx, &pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst}, &reply)
	if err != nil {
		return nil, fmt.Errorf("instances of %v: %w", indom, err)
	}
	return reply.Insts, nil
}

// InstanceName returns the name of an instance (pmNameInDom(3)).
func (c *Client) InstanceName(ctx context.Context, indom pdu.InDom, inst int32) (string, error) {
	reply, err := c.instance(ctx, &pdu.InstanceReq{InDom: indom, Inst: inst})
	if err != nil {
		return "", fmt.Errorf("instance %d of %v: %w", inst, indom, err)
	}
	return reply.Name, nil
}

// InstanceID returns the number of an instance (pmLookupInDom(3)). Agents may accept a part
// of a name that is long enough.
func (c *Client) InstanceID(ctx context.Context, indom pdu.InDom, name string) (int32, error) {
	reply, err := c.instance(ctx, &pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst, Name: name})
	if err != nil {
		return pdu.NoInst, fmt.Errorf("instance %q of %v: %w", name, indom, err)
	}
	return reply.ID, nil
}

func (c *Client) instance(ctx context.Context, req *pdu.InstanceReq) (pdu.Inst, error) {
	if req.Inst == pdu.NoInst && req.Name == "" { // that would ask for all
		return pdu.Inst{}, pdu.ErrnoInst
	}
	var reply pdu.Instance
	if err := c.checked(ctx, req, &reply, func() error {
		return checkCount("instances", len(reply.Insts), 1)
	}); err != nil {
		return pdu.Inst{}, err
	}
	return reply.Insts[0], nil
}

// TextKind is the kind of a help text (PM_TEXT_*, pmapi.h).
type TextKind int32

// Kinds of help texts.
const (
	TextOneLine TextKind = TextKind(pdu.TextOneLine) // in one line
	TextHelp    TextKind = TextKind(pdu.TextHelp)    // in full
)

// Text returns the help text of a metric (pmLookupText(3)). If the full text is empty, Text
// returns the line.
func (c *Client) Text(ctx context.Context, id pdu.PMID, kind TextKind) (string, error) {
	return c.text(ctx, uint32(id), pdu.TextKind(kind)|pdu.TextPMID, id)
}

// InDomText returns the help text of an instance domain (pmLookupInDomText(3)), as Text does.
func (c *Client) InDomText(ctx context.Context, indom pdu.InDom, kind TextKind) (string, error) {
	return c.text(ctx, uint32(indom), pdu.TextKind(kind)|pdu.TextInDom, indom)
}

func (c *Client) text(ctx context.Context, ident uint32, kind pdu.TextKind, of fmt.Stringer) (string, error) {
	var reply pdu.Text
	if err := c.call(ctx, &pdu.TextReq{Ident: ident, Kind: kind}, &reply); err != nil {
		return "", fmt.Errorf("help text of %v: %w", of, err)
	}
	if reply.Text == "" && kind&pdu.TextHelp != 0 {
		return c.text(ctx, ident, kind&^pdu.TextHelp|pdu.TextOneLine, of)
	}
	return reply.Text, nil
}

def refuse(s): pass

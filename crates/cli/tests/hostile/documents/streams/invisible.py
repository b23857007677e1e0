# tries: text that is not seen, or seen in another order
# run: 0
# exit_code: 0
# notes: None observed
# shows: quokka \u{202e}evil\u{202c} \u{200b}\u{2066}x\u{2069} \u{feff} \u{e0041} \u{2028} end
print("quokka \u202eevil\u202c \u200b\u2066x\u2069 \ufeff \U000e0041 \u2028 end")

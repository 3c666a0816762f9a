# bash completion of gpuctr-client. The client itself knows what can stand where; this asks it.

_gpuctr_client()
{
	local line directive= i client=${COMP_WORDS[0]/#\~\//$HOME/}
	COMPREPLY=()
	while IFS= read -r line; do
		case $line in
		:*) directive=$line ;;
		*) COMPREPLY+=("${line%%$'\t'*}") ;;
		esac
	done < <("$client" completion words -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
	case $directive in
	:program*)
		i=$((${directive#:program } + 1))
		if declare -F _command_offset >/dev/null; then
			_command_offset "$i"
			return
		fi
		if ((COMP_CWORD == i)); then
			while IFS= read -r line; do
				COMPREPLY+=("$line")
			done < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
		fi
		compopt -o default 2>/dev/null
		;;
	:files) compopt -o default 2>/dev/null ;;
	:more) compopt -o nospace 2>/dev/null ;;
	esac
}
complete -F _gpuctr_client gpuctr-client
